// Step 3.5: layers with a window have other heads and another base of rope, and norms store the difference from 1.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/rope_scaling.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kStep35Rules[] = {
    {"model.norm.weight", "output_norm.weight", Change::add_one},
    {"model.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight", Change::add_one},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight", Change::add_one},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight", Change::add_one},
    {"model.layers.{i}.self_attn.g_proj.weight", "blk.{i}.attn_gate.weight"},
    {"model.layers.{i}.moe.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.moe.router_bias", "blk.{i}.exp_probs_b.bias"},
    {"model.layers.{i}.moe.gate_proj.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.moe.up_proj.weight", "blk.{i}.ffn_up_exps.weight"},
    {"model.layers.{i}.moe.down_proj.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.share_expert.gate_proj.weight", "blk.{i}.ffn_gate_shexp.weight"},
    {"model.layers.{i}.share_expert.up_proj.weight", "blk.{i}.ffn_up_shexp.weight"},
    {"model.layers.{i}.share_expert.down_proj.weight", "blk.{i}.ffn_down_shexp.weight"},
    {"model.layers.{i}.enorm.weight", "blk.{i}.nextn.enorm.weight", Change::add_one},
    {"model.layers.{i}.hnorm.weight", "blk.{i}.nextn.hnorm.weight", Change::add_one},
    {"model.layers.{i}.transformer.shared_head.norm.weight", "blk.{i}.nextn.shared_head_norm.weight", Change::add_one},
    {"model.layers.{i}.transformer.shared_head.output.weight", "blk.{i}.nextn.shared_head_head.weight"},
#include "tessera/convert/checkpoints/later_layers.def"
};

constexpr KeyRow kStep35Keys[] = {
    {"block_count", "=all_layers"},
    {"attention.head_count", ""},
    {"attention.head_count_kv", ""},
    {"attention.key_length", "head_dim", KeyType::u32, kRequired},
    {"attention.value_length", "head_dim", KeyType::u32, kRequired},
    {"attention.sliding_window", "sliding_window", KeyType::u32, kRequired},
    {"rope.freq_base", ""},
    {"rope.freq_base_swa", ""},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"expert_count", "moe_num_experts"},
    {"expert_used_count", "moe_top_k"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "share_expert_dim"},
    {"expert_gating_func", "moe_router_activation", KeyType::function, otherwise_text("sigmoid")},
    {"expert_weights_norm", "norm_expert_weight", KeyType::boolean, otherwise(1)},
    {"expert_weights_scale", "moe_router_scaling_factor", KeyType::f32, otherwise(1)},
    {"nextn_predict_layers", "num_nextn_predict_layers"},
};

/// Item i of a list, or null past its end.
const Json* item_of(const Json* list, size_t i) {
  return list != nullptr && list->is_array() && i < list->size() ? &(*list)[i] : nullptr;
}

// Whether each layer has a window, also those that predict further tokens.
std::vector<bool> windows_of(const HubConfig& config, size_t n_layers) {
  std::vector<bool> windows(n_layers);
  const Json* const types = config.find({"layer_types"});
  for (size_t i = 0; i < n_layers; ++i) {
    const Json* const type = item_of(types, i);
    windows[i] = type != nullptr && *type == "sliding_attention";
  }
  return windows;
}

Result<> add_step35_heads(ModelDraft& draft, const std::vector<bool>& windows) {
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const int64_t n, config.require_integer({"num_attention_heads"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const int64_t n_kv, config.require_integer({"num_attention_groups"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const auto other, config.integer({"attention_other_setting.num_attention_heads"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const auto other_kv, config.integer({"attention_other_setting.num_attention_groups"}, 1, INT32_MAX));
  std::vector<int32_t> heads, heads_kv;
  const std::unique_ptr<bool[]> flags(new bool[windows.size()]);
  for (size_t i = 0; i < windows.size(); ++i) {
    heads.push_back(static_cast<int32_t>(windows[i] ? other.value_or(n) : n));
    heads_kv.push_back(static_cast<int32_t>(windows[i] ? other_kv.value_or(n_kv) : n_kv));
    flags[i] = windows[i];
  }
  draft.builder.set_array(draft.key("attention.head_count"), heads);
  draft.builder.set_array(draft.key("attention.head_count_kv"), heads_kv);
  draft.builder.set_array(draft.key("attention.sliding_window_pattern"),
                          std::span<const bool>(flags.get(), windows.size()));
  return {};
}

// The base of rope is a number, or one for each layer. Layers without a window rotate half of a head. Long waves of
// these may be slowed down, in the form of Llama 3.1.
Result<> add_step35_rope(ModelDraft& draft, const std::vector<bool>& windows) {
  const HubConfig& config = draft.config;
  const Json* const stated = config.find({"rope_theta"});
  const Json* const shares = config.find({"partial_rotary_factors"});
  double base = 10000, base_swa = 10000;
  for (size_t i = windows.size(); i-- > 0;) {
    const Json* const theta = stated != nullptr && stated->is_array() ? item_of(stated, i) : stated;
    if (theta != nullptr && theta->is_number()) (windows[i] ? base_swa : base) = theta->get<double>();
    const Json* const share = item_of(shares, i);
    if (share != nullptr && *share != (windows[i] ? 1.0 : 0.5))
      return fail(ErrorCode::unsupported, "{}: partial_rotary_factors of layer {}, want 1 with a window and else 0.5",
                  config.path(), i);
  }
  draft.builder.set(draft.key("rope.freq_base"), static_cast<float>(base));
  draft.builder.set(draft.key("rope.freq_base_swa"), static_cast<float>(base_swa));
  TESSERA_ASSIGN(const auto type, config.text({"rope_parameters.rope_type", "rope_scaling.rope_type"}));
  if (type.value_or("default") == "default") return {};
  const Json* const kinds = config.find({"yarn_only_types"});
  if (*type != "llama3" || kinds == nullptr || *kinds != Json::array({"full_attention"}))
    return fail(ErrorCode::unsupported, "{}: want rope scaling of type llama3, of full_attention only", config.path());
  TESSERA_ASSIGN(const int64_t size, head_size_of(config));
  TESSERA_ASSIGN(std::vector<float> factors, llama3_factors(draft, base, size / 2));
  factors.resize(to_size(size / 2), 1.0f);  // GGUF has room for whole heads
  draft.tensors.push_back(computed_tensor("rope_freqs.weight", std::move(factors)));
  return {};
}

// Limits of SwiGLU; 0 in layers without one.
Result<> add_step35_limits(ModelDraft& draft, std::string_view name, std::string_view key, size_t n_layers) {
  const Json* const stated = draft.config.find({name});
  if (stated == nullptr) return {};
  std::vector<float> limits(n_layers);
  for (size_t i = 0; i < n_layers; ++i)
    if (const Json* const limit = item_of(stated, i); limit != nullptr && limit->is_number())
      limits[i] = limit->get<float>();
  draft.builder.set_array(draft.key(key), limits);
  return {};
}

Result<> finish_step35(ModelDraft& draft) {
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(draft.config));
  TESSERA_ASSIGN(const auto n_later, draft.config.integer({"num_nextn_predict_layers"}, 0, kMaxLayers));
  const size_t n = to_size(draft.later_layers == LaterLayers::dropped ? n_layers : n_layers + n_later.value_or(0));
  const std::vector<bool> windows = windows_of(draft.config, n);
  TESSERA_TRY(add_step35_heads(draft, windows));
  TESSERA_TRY(add_step35_rope(draft, windows));
  TESSERA_TRY(add_step35_limits(draft, "swiglu_limits", "swiglu_clamp_exp", n));
  return add_step35_limits(draft, "swiglu_limits_shared", "swiglu_clamp_shexp", n);
}

constexpr ModelClass kStep35Classes[] = {
    {.names = "Step3p5ForCausalLM",
     .architecture = "step35",
     .rules = kStep35Rules,
     .keys = kStep35Keys,
     .scaling = RopeScaling::none,
     .finish = finish_step35},
};

}  // namespace

std::span<const ModelClass> step35_classes() { return kStep35Classes; }

}  // namespace tessera::convert
