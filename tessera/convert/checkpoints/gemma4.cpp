// Gemma 4: two sizes of heads, inputs per layer, experts beside a dense block, and norms that store their values
// themselves.
#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/mix.h"

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
    // Experts are stacked with gate and up in one or, where they are packed, tensors of their own.
    {"model.layers.{i}.post_feedforward_layernorm_1.weight", "blk.{i}.post_ffw_norm_1.weight"},
    {"model.layers.{i}.pre_feedforward_layernorm_2.weight", "blk.{i}.pre_ffw_norm_2.weight"},
    {"model.layers.{i}.post_feedforward_layernorm_2.weight", "blk.{i}.post_ffw_norm_2.weight"},
    {"model.layers.{i}.router.proj.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.router.scale", "blk.{i}.ffn_gate_inp.scale"},
    {"model.layers.{i}.router.per_expert_scale", "blk.{i}.ffn_down_exps.per_expert_scale"},
    {"model.layers.{i}.experts.gate_up_proj", "blk.{i}.ffn_gate_up_exps.weight"},
    {"model.layers.{i}.experts.down_proj", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.experts.{e}.gate_proj.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.experts.{e}.up_proj.weight", "blk.{i}.ffn_up_exps.weight"},
    {"model.layers.{i}.experts.{e}.down_proj.weight", "blk.{i}.ffn_down_exps.weight"},
};

constexpr std::string_view kFullHead = "global_head_dim head_dim";
constexpr int32_t kAbsentKvHeads = 4;

constexpr KeyRow kGemma4Keys[] = {
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(kAbsentKvHeads)},
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
    {"expert_feed_forward_length", "expert_intermediate_size moe_intermediate_size"},
};

/// The kinds of the layers.
struct Gemma4Layers {
  std::vector<std::string> types{};
  size_t first_shared = 0;  // it and the layers after it use K and V of earlier layers
  bool is_k_v = false;      // K is V too in layers without a window

  bool has_window(size_t layer) const { return types[layer] == "sliding_attention"; }
};

Result<Gemma4Layers> layers_of_gemma4(const HubConfig& config) {
  Gemma4Layers layers;
  TESSERA_ASSIGN(auto types, layer_types_of(config));
  if (types) layers.types = std::move(*types);
  TESSERA_ASSIGN(const auto n_shared, config.integer({"num_kv_shared_layers"}, 0, std::ssize(layers.types)));
  TESSERA_ASSIGN(const auto is_k_v, config.flag({"attention_k_eq_v"}));
  layers.first_shared = layers.types.size() - to_size(n_shared.value_or(0));
  layers.is_k_v = is_k_v.value_or(false);
  return layers;
}

// Layers without a window have a number of KV heads of their own if K is V too.
Result<> add_gemma4_heads(const Gemma4Layers& layers, ModelDraft& draft) {
  TESSERA_ASSIGN(const auto n_full, draft.config.integer({"num_global_key_value_heads"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const auto n_heads, draft.config.integer({"num_key_value_heads"}, 1, INT32_MAX));
  if (!n_full || !layers.is_k_v) return {};
  std::vector<int32_t> counts;
  for (size_t i = 0; i < layers.types.size(); ++i)
    counts.push_back(static_cast<int32_t>(layers.has_window(i) ? n_heads.value_or(kAbsentKvHeads) : *n_full));
  draft.builder.set_array(draft.key("attention.head_count_kv"), counts);
  return {};
}

// Layers without K and V of their own may have a dense block of twice the width.
Result<> add_gemma4_widths(const Gemma4Layers& layers, ModelDraft& draft) {
  TESSERA_ASSIGN(const auto is_wider, draft.config.flag({"use_double_wide_mlp"}));
  if (!is_wider.value_or(false)) return {};
  TESSERA_ASSIGN(const int64_t width, draft.config.require_integer({"intermediate_size"}, 1, INT32_MAX / 2));
  std::vector<int32_t> widths;
  for (size_t i = 0; i < layers.types.size(); ++i)
    widths.push_back(static_cast<int32_t>(i < layers.first_shared ? width : 2 * width));
  draft.builder.set_array(draft.key("feed_forward_length"), widths);
  return {};
}

// Checkpoints may have weights of K and V that no layer uses.
void drop_unused_kv(const Gemma4Layers& layers, std::vector<ConvertedTensor>& tensors) {
  std::erase_if(tensors, [&](const ConvertedTensor& tensor) {
    const auto is = [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; };
    const bool is_k = is(".attn_k.") || is(".attn_k_norm."), is_v = is(".attn_v.");
    if (!is_k && !is_v) return false;
    const auto layer = to_size(layer_of(tensor.name));
    if (layer >= layers.types.size()) return false;
    return layer >= layers.first_shared || (is_v && layers.is_k_v && !layers.has_window(layer));
  });
}

// The products of the factors that matrices of NVFP4 have and those of a router, for each expert.
Result<> multiply_scales(const Checkpoint& checkpoint, const ConvertedTensor& of_router, ConvertedTensor& scales) {
  if (of_router.shape.size() != 1 || of_router.shape != scales.shape)
    return fail(ErrorCode::mismatch, "{}: its shape differs from that of {}, want a factor for each expert",
                of_router.name, scales.name);
  const std::vector<float> factors = stored_floats(checkpoint, of_router);
  std::vector<float> values = stored_floats(checkpoint, scales);
  std::ranges::transform(values, factors, values.begin(), std::multiplies());
  scales = computed_tensor(std::move(scales.name), std::move(values));
  return {};
}

// The router's factors of experts are applied to their last matrices, which may have factors of their own.
Result<> join_expert_scales(ModelDraft& draft) {
  constexpr std::string_view kOfRouter = ".per_expert_scale", kOfMatrix = ".scale";
  std::unordered_map<std::string, ConvertedTensor*> of_matrices;
  for (ConvertedTensor& tensor : draft.tensors)
    if (tensor.name.ends_with(kOfMatrix)) of_matrices.emplace(tensor.name, &tensor);
  for (ConvertedTensor& tensor : draft.tensors) {
    if (!tensor.name.ends_with(kOfRouter)) continue;
    std::string name = tensor.name.substr(0, tensor.name.size() - kOfRouter.size()) + std::string(kOfMatrix);
    const auto found = of_matrices.find(name);
    if (found != of_matrices.end()) TESSERA_TRY(multiply_scales(draft.checkpoint, tensor, *found->second));
    tensor.name = found != of_matrices.end() ? "" : std::move(name);
  }
  std::erase_if(draft.tensors, [](const ConvertedTensor& tensor) { return tensor.name.empty(); });
  return {};
}

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

Result<> finish_gemma4(ModelDraft& draft) {
  TESSERA_ASSIGN(const Gemma4Layers layers, layers_of_gemma4(draft.config));
  TESSERA_TRY(add_gemma4_heads(layers, draft));
  TESSERA_TRY(add_gemma4_widths(layers, draft));
  drop_unused_kv(layers, draft.tensors);
  TESSERA_TRY(join_expert_scales(draft));
  return add_gemma4_factors(draft);
}

constexpr ModelClass kGemma4Classes[] = {
    {.names = "Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration",
     .architecture = "gemma4",
     .rules = kGemma4Rules,
     .keys = kGemma4Keys,
     .scaling = RopeScaling::none,
     .finish = finish_gemma4},
};

}  // namespace

std::span<const ModelClass> gemma4_classes() { return kGemma4Classes; }

}  // namespace tessera::convert
