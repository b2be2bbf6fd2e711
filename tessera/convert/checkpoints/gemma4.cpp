// Gemma 4: two sizes of heads, inputs per layer, and norms that store their values themselves.
#include <utility>

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kGemma4Rules[] = {
    {"lm_head.weight", "", Change::drop},
    {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
    {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
    {"model.layers.{i}.layer_scalar", "blk.{i}.layer_output_scale.weight"},
    {"model.layers.{i}.per_layer_input_gate.weight", "blk.{i}.inp_gate.weight"},
    {"model.layers.{i}.per_layer_projection.weight", "blk.{i}.proj.weight"},
    {"model.layers.{i}.post_per_layer_input_norm.weight", "blk.{i}.post_norm.weight"},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.pre_feedforward_layernorm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight"},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr std::string_view kFullHead = "global_head_dim head_dim";

constexpr KeyRow kGemma4Keys[] = {
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(4)},
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta", KeyType::f32, otherwise(1e6)},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.key_length", kFullHead, KeyType::u32, kRequired},
    {"attention.value_length", kFullHead, KeyType::u32, kRequired},
    {"attention.key_length_swa", "head_dim", KeyType::u32, kRequired},
    {"attention.value_length_swa", "head_dim", KeyType::u32, kRequired},
    {"rope.dimension_count", kFullHead, KeyType::u32, kRequired},
    {"rope.dimension_count_swa", "head_dim", KeyType::u32, kRequired},
    {"final_logit_softcapping", "final_logit_softcapping", KeyType::f32},
    {"attention.sliding_window", "sliding_window", KeyType::u32, kRequired},
    {"attention.sliding_window_pattern", "layer_types", KeyType::windows, kRequired},
    {"attention.shared_kv_layers", "num_kv_shared_layers", KeyType::u32, otherwise(0)},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", KeyType::u32, otherwise(0)},
};

// Heads of layers without a window rotate a part of their pairs: a factor of 1e30 stops the others.
Result<> add_gemma4_factors(ModelDraft& draft) {
  constexpr float kStops = 1e30f;
  constexpr double kAbsentShare = 0.25;
  TESSERA_ASSIGN(const int64_t size, draft.config.require_integer({"global_head_dim", "head_dim"}, 2, 1 << 16));
  TESSERA_ASSIGN(const auto share, draft.config.number({"rope_parameters.full_attention.partial_rotary_factor"}));
  const auto n_pairs = static_cast<size_t>(size / 2);
  const double n_rotated = share.value_or(kAbsentShare) * static_cast<double>(size) / 2;
  std::vector<float> factors(n_pairs, kStops);
  for (size_t i = 0; i < n_pairs && static_cast<double>(i + 1) <= n_rotated; ++i) factors[i] = 1.0f;
  draft.tensors.push_back(computed_tensor("rope_freqs.weight", std::move(factors)));
  return {};
}

Result<bool> is_dense(const HubConfig& config) {
  TESSERA_ASSIGN(const auto n, config.integer({"num_experts"}, 0, INT32_MAX));
  return n.value_or(0) == 0;
}

constexpr ModelClass kGemma4Classes[] = {
    {.names = "Gemma4ForCausalLM Gemma4ForConditionalGeneration",
     .architecture = "gemma4",
     .rules = kGemma4Rules,
     .keys = kGemma4Keys,
     .scaling = RopeScaling::none,
     .fits = is_dense,
     .finish = add_gemma4_factors},
};

}  // namespace

std::span<const ModelClass> gemma4_classes() { return kGemma4Classes; }

}  // namespace tessera::convert
