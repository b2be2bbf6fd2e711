// Laguna: heads of each layer, gates of their output, windows in three of four layers, and experts after dense layers.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kLagunaRules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
    {"model.layers.{i}.self_attn.g_proj.weight", "blk.{i}.attn_gate.weight"},
    {"model.layers.{i}.mlp.experts.e_score_correction_bias", "blk.{i}.exp_probs_b.bias"},
};

constexpr KeyRow kLagunaKeys[] = {
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"attention.head_count", ""},
    {"attention.key_length", "head_dim", KeyType::u32, kRequired},
    {"attention.value_length", "head_dim", KeyType::u32, kRequired},
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta", KeyType::f32, kRequired},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta", KeyType::f32},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"expert_gating_func", "", KeyType::function, otherwise_text("sigmoid")},
    {"expert_weights_norm", "", KeyType::boolean, otherwise(1)},
    {"expert_weights_scale", "moe_routed_scaling_factor", KeyType::f32, otherwise(1)},
};

Result<std::vector<int32_t>> laguna_heads(const HubConfig& config) {
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(config));
  TESSERA_ASSIGN(const auto stated, config.integers({"num_attention_heads_per_layer"}, 1, INT32_MAX));
  if (stated && std::ssize(*stated) != n_layers)
    return fail(ErrorCode::format, "{}: num_attention_heads_per_layer: {} numbers, want {}, one for each layer",
                config.path(), stated->size(), n_layers);
  if (stated) return std::vector<int32_t>(stated->begin(), stated->end());
  TESSERA_ASSIGN(const int64_t n, config.require_integer({"num_attention_heads"}, 1, INT32_MAX));
  return std::vector<int32_t>(to_size(n_layers), static_cast<int32_t>(n));
}

// The runtime has windows in all layers but every fourth one, from the first on.
Result<> add_laguna_window(ModelDraft& draft) {
  constexpr size_t kPeriod = 4;
  constexpr std::string_view kFull = "full_attention", kWindow = "sliding_attention";
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const auto window, config.integer({"sliding_window"}, 0, INT32_MAX));
  const bool has_windows = window.value_or(0) > 0;
  TESSERA_ASSIGN(const auto types, layer_types_of(config));
  if (has_windows && !types)
    return fail(ErrorCode::not_found, "{}: no layer_types, but a sliding_window", config.path());
  for (size_t i = 0; types && i < types->size(); ++i) {
    const std::string_view want = has_windows && i % kPeriod != 0 ? kWindow : kFull;
    if ((*types)[i] != want)
      return fail(ErrorCode::unsupported, "{}: layer_types of layer {} is {}, want {}", config.path(), i,
                  text::quote_text((*types)[i]), want);
  }
  if (has_windows) draft.builder.set(draft.key("attention.sliding_window"), static_cast<uint32_t>(*window));
  return {};
}

// Each kind of layers has settings of rope. The scaling is that of layers without a window.
Result<> add_laguna_rotation(ModelDraft& draft, const std::string& kind, std::string_view key) {
  const HubConfig& config = draft.config;
  if (config.find({kind}) == nullptr) return {};
  TESSERA_ASSIGN(const int64_t size, head_size_of(config));
  TESSERA_ASSIGN(const auto share, config.number({kind + ".partial_rotary_factor"}));
  const double n = std::floor(static_cast<double>(size) * share.value_or(1.0));
  if (!(n >= 1 && n <= static_cast<double>(size)))
    return fail(ErrorCode::format, "{}: {}.partial_rotary_factor is {}, want more than 0 and 1 at most", config.path(),
                kind, share.value_or(1.0));
  draft.builder.set(draft.key(key), static_cast<uint32_t>(n));
  return {};
}

Result<> add_laguna_rope(ModelDraft& draft) {
  const std::string window = "rope_parameters.sliding_attention";
  TESSERA_TRY(add_laguna_rotation(draft, "rope_parameters.full_attention", "rope.dimension_count"));
  TESSERA_TRY(add_laguna_rotation(draft, window, "rope.dimension_count_swa"));
  TESSERA_ASSIGN(const auto type, draft.config.text({window + ".rope_type"}));
  if (type.value_or("default") != "default")
    return fail(ErrorCode::unsupported, "{}: {}.rope_type is {}, want default", draft.config.path(), window,
                text::quote_text(*type));
  return {};
}

Result<> add_laguna_dense_layers(ModelDraft& draft) {
  const HubConfig& config = draft.config;
  const Json* const types = config.find({"mlp_layer_types"});
  uint32_t n_dense = 0;
  for (size_t i = 0; types != nullptr && i < types->size(); ++i) {
    const bool is_dense = types->is_array() && (*types)[i] == "dense";
    if (!types->is_array() || (!is_dense && (*types)[i] != "sparse") || (is_dense && i > n_dense))
      return fail(ErrorCode::unsupported, "{}: mlp_layer_types: want a list of dense layers before sparse ones",
                  config.path());
    n_dense += is_dense ? 1 : 0;
  }
  draft.builder.set(draft.key("leading_dense_block_count"), n_dense);
  return {};
}

// The kind of gates that the config states for a layer: a text, or true for one per head.
const Json* laguna_gating(const HubConfig& config, size_t layer) {
  const Json* const kinds = config.find({"gating_types"});
  if (kinds == nullptr) return config.find({"gating"});
  return kinds->is_array() && layer < kinds->size() ? &(*kinds)[layer] : kinds;
}

Result<> check_laguna_gates(const ModelDraft& draft, const std::vector<int32_t>& heads) {
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const int64_t size, head_size_of(config));
  for (size_t i = 0; i < heads.size(); ++i) {
    const Json* const kind = laguna_gating(config, i);
    if (kind == nullptr) continue;  // the shape tells
    const bool is_per_head = *kind == "per-head" || *kind == true;
    if (!is_per_head && *kind != "per-element")
      return fail(ErrorCode::unsupported, "{}: gates of layer {}: want per-head or per-element", config.path(), i);
    const int64_t n_rows = draft.rows_of("blk." + std::to_string(i) + ".attn_gate.weight");
    const int64_t want = is_per_head ? heads[i] : heads[i] * size;
    if (n_rows != want)
      return fail(ErrorCode::mismatch, "{}: layer {} has {} gates, want {}, one per {}", config.path(), i, n_rows, want,
                  is_per_head ? "head" : "element");
  }
  return {};
}

Result<> finish_laguna(ModelDraft& draft) {
  TESSERA_ASSIGN(const std::vector<int32_t> heads, laguna_heads(draft.config));
  draft.builder.set_array(draft.key("attention.head_count"), heads);
  TESSERA_TRY(add_laguna_window(draft));
  TESSERA_TRY(add_laguna_rope(draft));
  TESSERA_TRY(add_laguna_dense_layers(draft));
  return check_laguna_gates(draft, heads);
}

constexpr ModelClass kLagunaClasses[] = {
    {.names = "LagunaForCausalLM",
     .architecture = "laguna",
     .rules = kLagunaRules,
     .keys = kLagunaKeys,
     .finish = finish_laguna},
};

}  // namespace

std::span<const ModelClass> laguna_classes() { return kLagunaClasses; }

}  // namespace tessera::convert
