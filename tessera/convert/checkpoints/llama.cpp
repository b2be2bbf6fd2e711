// Llama, Mistral, Mixtral and others of their form: rows of q and k are in another order than in GGUF.
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kLlamaRules[] = {
    {"model.layers.{i}.self_attn.q_proj.{}", "blk.{i}.attn_q.{}", Change::rope_q},
    {"model.layers.{i}.self_attn.k_proj.{}", "blk.{i}.attn_k.{}", Change::rope_k},
    {"model.layers.{i}.block_sparse_moe.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w1.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w2.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w3.weight", "blk.{i}.ffn_up_exps.weight"},
};

// Names of Meta's own files, and of formats that took them over. Rows of q and k are in the order of GGUF.
constexpr TensorRule kMetaRules[] = {
    {"tok_embeddings.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"output.weight", "output.weight"},
    {"rope.freqs", "", Change::drop},
    {"layers.{i}.attention_norm.weight", "blk.{i}.attn_norm.weight"},
    {"layers.{i}.attention.wq.weight", "blk.{i}.attn_q.weight"},
    {"layers.{i}.attention.wk.weight", "blk.{i}.attn_k.weight"},
    {"layers.{i}.attention.wv.weight", "blk.{i}.attn_v.weight"},
    {"layers.{i}.attention.wo.weight", "blk.{i}.attn_output.weight"},
    {"layers.{i}.ffn_norm.weight", "blk.{i}.ffn_norm.weight"},
    {"layers.{i}.feed_forward.w1.weight", "blk.{i}.ffn_gate.weight"},
    {"layers.{i}.feed_forward.w2.weight", "blk.{i}.ffn_down.weight"},
    {"layers.{i}.feed_forward.w3.weight", "blk.{i}.ffn_up.weight"},
};

constexpr KeyRow kLlamaKeys[] = {
    {"context_length", "*", KeyType::u32, otherwise(2048)},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
};

constexpr KeyRow kArceeKeys[] = {
    {"context_length", "*", KeyType::u32, otherwise(4096)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
};

constexpr KeyRow kMistralKeys[] = {
    {"context_length", "*", KeyType::u32, otherwise(131072)},
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(8)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
};

constexpr KeyRow kMixtralKeys[] = {
    {"context_length", "*", KeyType::u32, otherwise(131072)},
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(8)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(1e6)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"expert_count", "*", KeyType::u32, otherwise(8)},
    {"expert_used_count", "*", KeyType::u32, otherwise(2)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
};

constexpr KeyRow kMistral3Keys[] = {
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
    {"rope.scaling.yarn_log_multiplier", "rope_parameters.mscale_all_dim rope_scaling.mscale_all_dim", KeyType::f32},
    {"attention.temperature_scale", "rope_parameters.llama_4_scaling_beta rope_scaling.llama_4_scaling_beta",
     KeyType::f32},
};

constexpr KeyRow kSmolLm3Keys[] = {
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
};

// The runtime leaves out rope in every fourth layer.
Result<> check_rope_layers(ModelDraft& draft) {
  constexpr int64_t kInterval = 4;
  TESSERA_ASSIGN(const auto flags, draft.config.integers({"no_rope_layers"}, 0, 1));
  if (!flags) return {};
  for (size_t i = 0; i < flags->size(); ++i)
    if ((*flags)[i] != ((static_cast<int64_t>(i) + 1) % kInterval == 0 ? 0 : 1))
      return fail(ErrorCode::unsupported, "{}: no_rope_layers of layer {} is {}, want 0 in every fourth layer only",
                  draft.config.path(), i, (*flags)[i]);
  return {};
}

constexpr ModelClass kLlamaClasses[] = {
    {.names = "LlamaForCausalLM", .architecture = "llama", .rules = kLlamaRules, .keys = kLlamaKeys},
    {.names = "ArceeForCausalLM",
     .architecture = "arcee",
     .rules = kLlamaRules,
     .keys = kArceeKeys,
     .shared_keys = kLlamaKeys},
    {.names = "XverseForCausalLM", .architecture = "xverse", .rules = kLlamaRules, .keys = kLlamaKeys},
    {.names = "MetaLlama", .architecture = "llama", .rules = kMetaRules, .keys = kLlamaKeys, .is_decoder = false},
    {.names = "MistralForCausalLM", .architecture = "llama", .rules = kLlamaRules, .keys = kMistralKeys},
    {.names = "MixtralForCausalLM", .architecture = "llama", .rules = kLlamaRules, .keys = kMixtralKeys},
    {.names = "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
     .architecture = "mistral3",
     .rules = kLlamaRules,
     .keys = kMistral3Keys},
    {.names = "SmolLM3ForCausalLM",
     .architecture = "smollm3",
     .rules = kLlamaRules,
     .keys = kSmolLm3Keys,
     .finish = check_rope_layers},
};

}  // namespace

std::span<const ModelClass> llama_classes() { return kLlamaClasses; }

}  // namespace tessera::convert
