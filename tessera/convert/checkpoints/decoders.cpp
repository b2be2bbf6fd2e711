// Decoders that differ from Llama by a few rows.
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kStableLmRules[] = {
    {"model.layers.{i}.self_attn.q_layernorm.norms.{e}.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_layernorm.norms.{e}.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kStableLmKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated_quarter"},
    {"use_parallel_residual", "use_parallel_residual", KeyType::boolean, otherwise(0)},
};

constexpr TensorRule kNemotronRules[] = {
    {"model.norm.weight", "output_norm.weight", Change::add_one},
    {"model.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight", Change::add_one},
};

constexpr KeyRow kNemotronKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "layer_norm_eps norm_eps", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=rotated_half"},
};

Result<> finish_nemotron(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto factor, draft.config.number({"factor", "rope_scaling.factor"}));
  draft.builder.set(draft.key("rope.scaling.type"), factor ? "linear" : "none");
  if (factor) draft.builder.set(draft.key("rope.scaling.factor"), static_cast<float>(*factor));
  return {};
}

constexpr TensorRule kSeedRules[] = {
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
};

constexpr KeyRow kSeedKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
};

// LayerNorm, though the config calls its eps that of RMS norms.
constexpr KeyRow kOrionKeys[] = {
    {"context_length", "max_sequence_length max_position_embeddings model_max_length", KeyType::u32, kRequired},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", ""},
    {"attention.layer_norm_epsilon", "rms_norm_eps layer_norm_eps", KeyType::f32, otherwise(1e-5)},
};

constexpr KeyRow kPanguKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"attention.key_length", "=head_size"},
    {"attention.value_length", "=head_size"},
    {"rope.dimension_count", "=head_size"},
};

constexpr TensorRule kNormedQkRules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kJais2Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(500000)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=head_size"},
};

// Diffusion models see the whole text at once.
constexpr KeyRow kDreamKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.causal", "", KeyType::boolean, otherwise(0)},
};

constexpr TensorRule kLladaRules[] = {
    {"wte.weight", "token_embd.weight"},
    {"ln_f.weight", "output_norm.weight"},
    {"ff_out.weight", "output.weight"},
    {"blocks.{i}.attn_norm.weight", "blk.{i}.attn_norm.weight"},
    {"blocks.{i}.q_proj.{}", "blk.{i}.attn_q.{}", Change::rope_q},
    {"blocks.{i}.k_proj.{}", "blk.{i}.attn_k.{}", Change::rope_k},
    {"blocks.{i}.v_proj.{}", "blk.{i}.attn_v.{}"},
    {"blocks.{i}.attn_out.weight", "blk.{i}.attn_output.weight"},
    {"blocks.{i}.ff_norm.weight", "blk.{i}.ffn_norm.weight"},
    {"blocks.{i}.ff_proj.weight", "blk.{i}.ffn_gate.weight"},
    {"blocks.{i}.up_proj.weight", "blk.{i}.ffn_up.weight"},
    {"blocks.{i}.ff_out.weight", "blk.{i}.ffn_down.weight"},
};

constexpr KeyRow kLladaKeys[] = {
    {"context_length", "max_sequence_length", KeyType::u32, otherwise(4096)},
    {"feed_forward_length", "mlp_hidden_size", KeyType::u32, otherwise(12288)},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
    {"attention.causal", "", KeyType::boolean, otherwise(0)},
};

// Row i has the logits of token i, not of the next one. The key has no name of an architecture in front.
Result<> set_shift_of_logits(ModelDraft& draft) {
  draft.builder.set("diffusion.shift_logits", false);
  return {};
}

constexpr ModelClass kDecoderClasses[] = {
    {.names = "StableLmForCausalLM StableLMEpochForCausalLM",
     .architecture = "stablelm",
     .rules = kStableLmRules,
     .keys = kStableLmKeys},
    {.names = "NemotronForCausalLM",
     .architecture = "nemotron",
     .rules = kNemotronRules,
     .keys = kNemotronKeys,
     .scaling = RopeScaling::none,
     .finish = finish_nemotron},
    {.names = "OrionForCausalLM", .architecture = "orion", .rules = {}, .keys = kOrionKeys},
    {.names = "PanguEmbeddedForCausalLM", .architecture = "pangu-embedded", .rules = {}, .keys = kPanguKeys},
    {.names = "MaincoderForCausalLM", .architecture = "maincoder", .rules = kNormedQkRules, .keys = kSeedKeys},
    {.names = "Jais2ForCausalLM", .architecture = "jais2", .rules = {}, .keys = kJais2Keys},
    {.names = "DreamModel", .architecture = "dream", .rules = {}, .keys = kDreamKeys},
    {.names = "LLaDAModelLM",
     .architecture = "llada",
     .rules = kLladaRules,
     .keys = kLladaKeys,
     .is_decoder = false,
     .prefix = "model.transformer.",
     .finish = set_shift_of_logits},
    {.names = "SeedOssForCausalLM", .architecture = "seed_oss", .rules = kSeedRules, .keys = kSeedKeys},
};

}  // namespace

std::span<const ModelClass> decoders_classes() { return kDecoderClasses; }

}  // namespace tessera::convert
