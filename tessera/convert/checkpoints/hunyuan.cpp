// HunYuan, dense and with experts, and Hy 3: q and k have norms, and long contexts enlarge the base of rope.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kHunyuanRules[] = {
    {"model.layers.{i}.self_attn.query_layernorm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.key_layernorm.weight", "blk.{i}.attn_k_norm.weight"},
    {"model.layers.{i}.mlp.gate.wg.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.mlp.shared_mlp.gate_proj.weight", "blk.{i}.ffn_gate_shexp.weight"},
    {"model.layers.{i}.mlp.shared_mlp.up_proj.weight", "blk.{i}.ffn_up_shexp.weight"},
    {"model.layers.{i}.mlp.shared_mlp.down_proj.weight", "blk.{i}.ffn_down_shexp.weight"},
};

constexpr KeyRow kHunyuanKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"expert_count", ""},
    {"expert_used_count", ""},
};

// With this kind of scaling, the base is enlarged for all contexts at once. Configs state a shorter context than that
// which the models are made for.
Result<> add_dynamic_rope(ModelDraft& draft, double absent_alpha) {
  constexpr uint32_t kContext = 262144;
  TESSERA_ASSIGN(const auto type, draft.config.text({"rope_parameters.rope_type", "rope_scaling.rope_type",
                                                     "rope_parameters.type", "rope_scaling.type"}));
  if (type.value_or("") != "dynamic") return {};
  TESSERA_ASSIGN(const auto alpha, draft.config.number({"rope_parameters.alpha", "rope_scaling.alpha"}));
  TESSERA_ASSIGN(const auto stated, number_of(draft.config, "rope_parameters.rope_theta rope_theta"));
  TESSERA_ASSIGN(const int64_t size, head_size_of(draft.config));
  const double factor = alpha.value_or(absent_alpha), n = static_cast<double>(size);
  if (!(factor > 0) || size <= 2)
    return fail(ErrorCode::format, "{}: rope with alpha {} for heads of {} values, want more than 0 and 2",
                draft.config.path(), factor, size);
  const double base = stated.value_or(10000.0) * std::pow(factor, n / (n - 2));
  draft.builder.set(draft.key("rope.freq_base"), static_cast<float>(base));
  draft.builder.set(draft.key("rope.scaling.type"), "none");
  draft.builder.set(draft.key("rope.scaling.original_context_length"), kContext);
  draft.builder.set(draft.key("context_length"), kContext);
  return {};
}

Result<> finish_hunyuan_dense(ModelDraft& draft) { return add_dynamic_rope(draft, 50); }

// A number, or a list of the same number for each layer. Error: unsupported (layers differ).
Result<int64_t> number_of_all_layers(const HubConfig& config, std::string_view name) {
  const Json* const value = config.find({name});
  if (value == nullptr || !value->is_array()) return config.require_integer({name}, 0, INT32_MAX);
  TESSERA_ASSIGN(const auto stated, config.integers({name}, 0, INT32_MAX));
  const std::vector<int64_t> numbers = stated.value_or(std::vector<int64_t>{});
  if (numbers.empty()) return fail(ErrorCode::format, "{}: {} is empty", config.path(), name);
  if (std::ranges::any_of(numbers, [&](int64_t number) { return number != numbers.front(); }))
    return fail(ErrorCode::unsupported, "{}: {} differs between layers", config.path(), name);
  return numbers.front();
}

Result<> finish_hunyuan_moe(ModelDraft& draft) {
  struct LayerNumber {
    std::string_view key, name;
  };
  constexpr LayerNumber kNumbers[] = {{"expert_count", "num_experts"},
                                      {"expert_used_count", "moe_topk"},
                                      {"expert_feed_forward_length", "moe_intermediate_size"},
                                      {"expert_shared_count", "num_shared_expert"}};
  for (const auto& [key, name] : kNumbers) {
    TESSERA_ASSIGN(const int64_t number, number_of_all_layers(draft.config, name));
    draft.builder.set(draft.key(key), static_cast<uint32_t>(number));
  }
  TESSERA_ASSIGN(const int64_t n_shared, number_of_all_layers(draft.config, "num_shared_expert"));
  TESSERA_ASSIGN(const int64_t width, draft.config.require_integer({"intermediate_size"}, 1, INT32_MAX));
  if (n_shared > INT32_MAX / width)
    return fail(ErrorCode::limit, "{}: {} shared experts of {} columns", draft.config.path(), n_shared, width);
  draft.builder.set(draft.key("expert_shared_feed_forward_length"), static_cast<uint32_t>(n_shared * width));
  return add_dynamic_rope(draft, 1000);
}

// The bias of the choice of experts has no suffix in GGUF.
constexpr TensorRule kHy3Rules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
    {"model.layers.{i}.mlp.router.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.mlp.router.expert_bias", "blk.{i}.exp_probs_b"},
    {"model.layers.{i}.mlp.expert_bias", "blk.{i}.exp_probs_b"},
    {"model.layers.{i}.mlp.e_score_correction_bias", "blk.{i}.exp_probs_b"},
    {"model.layers.{i}.mlp.shared_mlp.gate_proj.weight", "blk.{i}.ffn_gate_shexp.weight"},
    {"model.layers.{i}.mlp.shared_mlp.up_proj.weight", "blk.{i}.ffn_up_shexp.weight"},
    {"model.layers.{i}.mlp.shared_mlp.down_proj.weight", "blk.{i}.ffn_down_shexp.weight"},
    {"model.layers.{i}.final_layernorm.weight", "blk.{i}.nextn.shared_head_norm.weight"},
#include "tessera/convert/checkpoints/later_layers.def"
};

constexpr KeyRow kHy3Keys[] = {
    {"block_count", "=all_layers"},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(11158840)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_feed_forward_length", "=shared_width moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_weights_norm", "route_norm", KeyType::boolean, otherwise(1)},
    {"expert_weights_scale", "router_scaling_factor", KeyType::f32, otherwise(1)},
    {"expert_gating_func", "", KeyType::function, otherwise_text("sigmoid")},
    {"nextn_predict_layers", "num_nextn_predict_layers"},
};

constexpr ModelClass kHunyuanClasses[] = {
    {.names = "HYV3ForCausalLM", .architecture = "hy_v3", .rules = kHy3Rules, .keys = kHy3Keys},
    {.names = "HunYuanDenseV1ForCausalLM",
     .architecture = "hunyuan-dense",
     .rules = kHunyuanRules,
     .keys = kHunyuanKeys,
     .finish = finish_hunyuan_dense},
    {.names = "HunYuanMoEV1ForCausalLM",
     .architecture = "hunyuan-moe",
     .rules = kHunyuanRules,
     .keys = kHunyuanKeys,
     .finish = finish_hunyuan_moe},
};

}  // namespace

std::span<const ModelClass> hunyuan_classes() { return kHunyuanClasses; }

}  // namespace tessera::convert
