// Models with the names of GPT-2 and another form: StarCoder, CodeShell, Refact, Qwen 1, Jais, DBRX, OpenELM, ChatGLM.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tessera/convert/checkpoints/gpt_rules.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/pieces.h"
#include "tessera/gguf/keys.h"

namespace tessera::convert {

namespace {

constexpr KeyRow kStarcoderKeys[] = {
    {"feed_forward_length", "n_inner =embedding", KeyType::u32, kRequired},
    {"attention.head_count_kv", "", KeyType::u32, otherwise(1)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
};

// The width of the FFN is four times the embedding, unless the config says otherwise.
Result<> set_ffn_of_gpt(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto stated, draft.config.integer({"n_inner"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const int64_t n_embd, embedding_of(draft.config));
  if (!stated && n_embd <= INT32_MAX / 4)
    draft.builder.set(draft.key("feed_forward_length"), static_cast<uint32_t>(4 * n_embd));
  return {};
}

// Several KV heads have another order of q, k and v.
Result<> finish_starcoder(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto is_multi_query, draft.config.flag({"multi_query"}));
  if (!is_multi_query.value_or(true))
    return fail(ErrorCode::unsupported, "{}: multi_query is false, want one KV head", draft.config.path());
  return set_ffn_of_gpt(draft);
}

constexpr TensorRule kCodeShellRules[] = {
    {"wte.weight", "token_embd.weight"},
    {"wte.weight", "output.weight", Change::spare},  // the architecture has an output layer of its own
};

constexpr KeyRow kCodeShellKeys[] = {
    {"feed_forward_length", "n_inner =embedding", KeyType::u32, kRequired},
    {"attention.head_count_kv", "num_query_groups =heads"},
    {"rope.freq_base", "", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
};

// The rows of k, for the only KV head, come before those of v.
constexpr TensorRule kRefactRules[] = {
    {"h.{i}.attn.q.weight", "blk.{i}.attn_q.weight"},
    {"h.{i}.attn.kv.weight", "blk.{i}.attn_k.weight", Change::first_half},
    {"h.{i}.attn.kv.weight", "blk.{i}.attn_v.weight", Change::second_half},
    {"h.{i}.mlp.gate_up_proj.weight", "blk.{i}.ffn_gate.weight", Change::first_half},
    {"h.{i}.mlp.gate_up_proj.weight", "blk.{i}.ffn_up.weight", Change::second_half},
};

constexpr KeyRow kRefactKeys[] = {
    {"attention.head_count_kv", "", KeyType::u32, otherwise(1)},
    {"attention.layer_norm_epsilon", ""},
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", KeyType::f32, otherwise(1e-5)},
};

// Configs do not state the width of the FFN: the number of rows of its gate.
Result<> set_ffn_of_weights(ModelDraft& draft) {
  const int64_t n = draft.rows_of("blk.0.ffn_gate.weight");
  if (n > 0 && n <= INT32_MAX) draft.builder.set(draft.key("feed_forward_length"), static_cast<uint32_t>(n));
  return {};
}

constexpr TensorRule kQwen1Rules[] = {
    {"h.{i}.mlp.w1.weight", "blk.{i}.ffn_up.weight"},
    {"h.{i}.mlp.w2.weight", "blk.{i}.ffn_gate.weight"},
};

constexpr KeyRow kQwen1Keys[] = {
    {"context_length", "seq_length max_position_embeddings", KeyType::u32, kRequired},
    {"feed_forward_length", "intermediate_size", KeyType::u32, kRequired},
    {"attention.head_count_kv", "=heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", ""},
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", KeyType::f32, otherwise(1e-6)},
    {"rope.dimension_count", "=head_size"},
};

Result<double> factor_of(const HubConfig& config, const HubConfig::Names& names) {
  TESSERA_ASSIGN(const auto factor, config.number(names));
  return factor.value_or(1.0);
}

Result<TensorPieces> scaled_embedding(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const double factor, factor_of(*facts.config, {"mup_embeddings_scale", "embeddings_scale"}));
  return one_view(tensor, factor);
}

Result<TensorPieces> scaled_output(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const auto alpha, facts.config->number({"mup_output_alpha"}));
  TESSERA_ASSIGN(const double width, factor_of(*facts.config, {alpha ? "mup_width_scale" : "width_scale"}));
  return one_view(tensor, width * alpha.value_or(1.0));
}

constexpr TensorRule kJaisRules[] = {
    {"lm_head.weight", "output.weight", Change::same, scaled_output},
    {"wte.weight", "token_embd.weight", Change::same, scaled_embedding},
    {"wte.weight", "output.weight", Change::spare, scaled_output},
    {"relative_pe.slopes", "", Change::drop},
    {"h.{i}.attn.c_attn.weight", "blk.{i}.attn_qkv.weight", Change::transpose},
    {"h.{i}.attn.c_proj.weight", "blk.{i}.attn_output.weight", Change::transpose},
    {"h.{i}.mlp.c_fc.weight", "blk.{i}.ffn_up.weight", Change::transpose},
    {"h.{i}.mlp.c_fc2.weight", "blk.{i}.ffn_gate.weight", Change::transpose},
    {"h.{i}.mlp.c_fc2.bias", "blk.{i}.ffn_gate.bias"},
    {"h.{i}.mlp.c_proj.weight", "blk.{i}.ffn_down.weight", Change::transpose},
};

constexpr KeyRow kJaisKeys[] = {
    {"feed_forward_length", "n_inner", KeyType::u32, kRequired},
    {"attention.head_count_kv", "=heads"},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"attention.max_alibi_bias", "", KeyType::f32, otherwise(8)},
};

Result<> check_jais(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto activation, draft.config.text({"activation_function"}));
  TESSERA_ASSIGN(const auto positions, draft.config.text({"position_embedding_type"}));
  if (activation == "swiglu" && positions == "alibi") return {};
  return fail(ErrorCode::unsupported, "{}: want the activation_function swiglu and the position_embedding_type alibi",
              draft.config.path());
}

// Experts are rows of one matrix.
Result<TensorPieces> matrix_of_experts(const StoredTensor& tensor, const RuleFacts& facts, bool is_transposed) {
  TESSERA_ASSIGN(const int64_t n, facts.config->require_integer({"ffn_config.moe_num_experts"}, 1, INT32_MAX));
  return stack_of_rows(tensor, n, is_transposed);
}

Result<TensorPieces> dbrx_experts(const StoredTensor& tensor, const RuleFacts& facts) {
  return matrix_of_experts(tensor, facts, false);
}
Result<TensorPieces> dbrx_transposed_experts(const StoredTensor& tensor, const RuleFacts& facts) {
  return matrix_of_experts(tensor, facts, true);
}

constexpr TensorRule kDbrxRules[] = {
    {"lm_head.weight", "output.weight"},
    {"wte.weight", "token_embd.weight"},
    {"norm_f.weight", "output_norm.weight"},
    {"blocks.{i}.norm_attn_norm.norm_1.weight", "blk.{i}.attn_norm.weight"},
    {"blocks.{i}.norm_attn_norm.norm_2.weight", "blk.{i}.attn_output_norm.weight"},
    {"blocks.{i}.norm_attn_norm.attn.Wqkv.weight", "blk.{i}.attn_qkv.weight"},
    {"blocks.{i}.norm_attn_norm.attn.out_proj.weight", "blk.{i}.attn_output.weight"},
    {"blocks.{i}.ffn.router.layer.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"blocks.{i}.ffn.experts.mlp.w1", "blk.{i}.ffn_gate_exps.weight", Change::same, dbrx_experts},
    {"blocks.{i}.ffn.experts.mlp.v1", "blk.{i}.ffn_up_exps.weight", Change::same, dbrx_experts},
    {"blocks.{i}.ffn.experts.mlp.w2", "blk.{i}.ffn_down_exps.weight", Change::same, dbrx_transposed_experts},
};

constexpr KeyRow kDbrxKeys[] = {
    {"feed_forward_length", "ffn_config.ffn_hidden_size", KeyType::u32, kRequired},
    {"attention.head_count_kv", "attn_config.kv_n_heads", KeyType::u32, kRequired},
    {"attention.clamp_kqv", "attn_config.clip_qkv", KeyType::f32, kRequired},
    {"attention.layer_norm_epsilon", "", KeyType::f32, otherwise(1e-5)},
    {"rope.freq_base", "attn_config.rope_theta", KeyType::f32, otherwise(10000)},
    {"expert_count", "ffn_config.moe_num_experts", KeyType::u32, kRequired},
    {"expert_used_count", "ffn_config.moe_top_k", KeyType::u32, kRequired},
};

constexpr TensorRule kOpenElmRules[] = {
    {"lm_head.weight", "", Change::drop},  // equals the token embedding
    {"token_embeddings.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"layers.{i}.attn_norm.weight", "blk.{i}.attn_norm.weight"},
    {"layers.{i}.attn.qkv_proj.weight", "blk.{i}.attn_qkv.weight"},
    {"layers.{i}.attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"layers.{i}.attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
    {"layers.{i}.attn.out_proj.weight", "blk.{i}.attn_output.weight"},
    {"layers.{i}.ffn_norm.weight", "blk.{i}.ffn_norm.weight"},
    {"layers.{i}.ffn.proj_1.weight", "blk.{i}.ffn_gate.weight", Change::first_half},
    {"layers.{i}.ffn.proj_1.weight", "blk.{i}.ffn_up.weight", Change::second_half},
    {"layers.{i}.ffn.proj_2.weight", "blk.{i}.ffn_down.weight"},
};

constexpr KeyRow kOpenElmKeys[] = {
    {"block_count", "num_transformer_layers", KeyType::u32, kRequired},
    {"context_length", "max_context_length", KeyType::u32, kRequired},
    {"embedding_length", "model_dim", KeyType::u32, kRequired},
    {"feed_forward_length", ""},
    {"attention.head_count", ""},
    {"attention.head_count_kv", ""},
    {"attention.layer_norm_rms_epsilon", "", KeyType::f32, otherwise(1e-6)},
    {"rope.freq_base", "rope_freq_constant", KeyType::f32, otherwise(10000)},
    {"rope.dimension_count", "head_dim", KeyType::u32, kRequired},
};

// Heads and widths differ between layers. Configs state the widths by factors and a rounding.
Result<> finish_openelm(ModelDraft& draft) {
  TESSERA_ASSIGN(const int64_t n_layers, draft.config.require_integer({"num_transformer_layers"}, 1, kMaxLayers));
  std::vector<int32_t> widths;
  for (int64_t i = 0; i < n_layers; ++i) {
    const int64_t n = draft.rows_of("blk." + std::to_string(i) + ".ffn_gate.weight");
    widths.push_back(static_cast<int32_t>(std::min<int64_t>(n, INT32_MAX)));
  }
  draft.builder.set_array(draft.key("feed_forward_length"), widths);
  struct HeadList {
    std::string_view key, name;
  };
  constexpr HeadList kLists[] = {{"attention.head_count", "num_query_heads"},
                                 {"attention.head_count_kv", "num_kv_heads"}};
  for (const auto& [key, name] : kLists) {
    TESSERA_ASSIGN(const auto numbers, draft.config.integers({name}, 0, INT32_MAX));
    const std::vector<int64_t> counts = numbers.value_or(std::vector<int64_t>{});
    if (std::ssize(counts) != n_layers)
      return fail(ErrorCode::format, "{}: {}: {} numbers for {} layers", draft.config.path(), name, counts.size(),
                  n_layers);
    draft.builder.set_array(draft.key(key), std::vector<int32_t>(counts.begin(), counts.end()));
  }
  return {};
}

constexpr TensorRule kChatGlmRules[] = {
    {"embedding.word_embeddings.weight", "token_embd.weight"},
    {"output_layer.weight", "output.weight"},
    {"encoder.final_layernorm.weight", "output_norm.weight"},
    {"encoder.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight"},
    {"encoder.layers.{i}.self_attention.query_key_value.{}", "blk.{i}.attn_qkv.{}"},
    {"encoder.layers.{i}.self_attention.dense.{}", "blk.{i}.attn_output.{}"},
    {"encoder.layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight"},
    {"encoder.layers.{i}.mlp.dense_h_to_4h.weight", "blk.{i}.ffn_up.weight"},
    {"encoder.layers.{i}.mlp.dense_4h_to_h.weight", "blk.{i}.ffn_down.weight"},
    {"rotary_pos_emb.inv_freq", "", Change::drop},
};

constexpr KeyRow kChatGlmKeys[] = {
    {"context_length", "seq_length", KeyType::u32, kRequired},
    {"feed_forward_length", "ffn_hidden_size", KeyType::u32, kRequired},
    {"attention.head_count_kv", "multi_query_group_num =heads"},
    {"attention.key_length", "kv_channels"},
    {"attention.value_length", "kv_channels"},
    {"attention.layer_norm_epsilon", ""},
    {"attention.layer_norm_rms_epsilon", "layernorm_epsilon", KeyType::f32, otherwise(1e-5)},
    {"rope.freq_base", "rope_ratio", KeyType::f32, otherwise(10000), 10000.0},
    {"rope.dimension_count", "=rotated_half"},
};

// GLM 4 under the names of the transformers library: a gated FFN in one matrix.
constexpr TensorRule kGlmRules[] = {
    {"model.layers.{i}.mlp.gate_up_proj.weight", "blk.{i}.ffn_up.weight"},
};

constexpr KeyRow kGlmKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1.5625e-7)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"rope.dimension_count", "=rotated_half"},
};

constexpr ModelClass kGptKinClasses[] = {
    {.names = "GPTBigCodeForCausalLM",
     .architecture = "starcoder",
     .rules = {},
     .keys = kStarcoderKeys,
     .shared_rules = kGptRules,
     .is_decoder = false,
     .prefix = "transformer.",
     .is_head_tied = true,
     .finish = finish_starcoder},
    {.names = "CodeShellForCausalLM",
     .architecture = "codeshell",
     .rules = kCodeShellRules,
     .keys = kCodeShellKeys,
     .shared_rules = kGptRules,
     .is_decoder = false,
     .prefix = "transformer.",
     .scaling = RopeScaling::none,
     .finish = set_ffn_of_gpt},
    {.names = "GPTRefactForCausalLM",
     .architecture = "refact",
     .rules = kRefactRules,
     .keys = kRefactKeys,
     .shared_rules = kGptRules,
     .is_decoder = false,
     .prefix = "transformer.",
     .finish = set_ffn_of_weights},
    {.names = "QWenLMHeadModel",
     .architecture = "qwen",
     .rules = kQwen1Rules,
     .keys = kQwen1Keys,
     .shared_rules = kGptRules,
     .is_decoder = false,
     .prefix = "transformer."},
    {.names = "JAISLMHeadModel",
     .architecture = "jais",
     .rules = kJaisRules,
     .keys = kJaisKeys,
     .shared_rules = kGptRules,
     .is_decoder = false,
     .prefix = "transformer.",
     .finish = check_jais},
    {.names = "DbrxForCausalLM",
     .architecture = "dbrx",
     .rules = kDbrxRules,
     .keys = kDbrxKeys,
     .is_decoder = false,
     .prefix = "transformer."},
    {.names = "OpenELMForCausalLM",
     .architecture = "openelm",
     .rules = kOpenElmRules,
     .keys = kOpenElmKeys,
     .is_decoder = false,
     .prefix = "transformer.",
     .scaling = RopeScaling::none,
     .finish = finish_openelm},
    {.names = "ChatGLMModel ChatGLMForConditionalGeneration",
     .architecture = "chatglm",
     .rules = kChatGlmRules,
     .keys = kChatGlmKeys,
     .is_decoder = false,
     .prefix = "transformer."},
    {.names = "GlmForCausalLM", .architecture = "chatglm", .rules = kGlmRules, .keys = kGlmKeys},
};

}  // namespace

std::span<const ModelClass> gpt_kin_classes() { return kGptKinClasses; }

}  // namespace tessera::convert
