// Mixtures of experts that differ from Qwen's by a few rows.
#include <nlohmann/json.hpp>

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kNormedHeadsRules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kDots1Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"leading_dense_block_count", "first_k_dense_replace", KeyType::u32, otherwise(0)},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "n_shared_experts", KeyType::u32, otherwise(0)},
    {"expert_gating_func", "*", KeyType::function, otherwise_text("sigmoid")},
    {"expert_weights_scale", "routed_scaling_factor", KeyType::f32, otherwise(1)},
    {"expert_weights_norm", "norm_topk_prob", KeyType::boolean, otherwise(0)},
};

constexpr TensorRule kSmallThinkerRules[] = {
    {"model.layers.{i}.block_sparse_moe.primary_router.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.gate.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.up.weight", "blk.{i}.ffn_up_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.down.weight", "blk.{i}.ffn_down_exps.weight"},
};

constexpr KeyRow kSmallThinkerKeys[] = {
    {"feed_forward_length", "moe_ffn_hidden_size", KeyType::u32, kRequired},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"expert_count", "moe_num_primary_experts", KeyType::u32, kRequired},
    {"expert_used_count", "moe_num_active_primary_experts", KeyType::u32, kRequired},
    {"expert_feed_forward_length", "moe_ffn_hidden_size"},
};

// The runtime knows two forms: windows and rope in all layers but every fourth one, from the first on; or no windows,
// and rope in all layers.
Result<> finish_small_thinker(ModelDraft& draft) {
  constexpr size_t kPeriod = 4;
  TESSERA_ASSIGN(const auto is_softmax, draft.config.flag({"moe_primary_router_apply_softmax"}));
  draft.builder.set(draft.key("expert_gating_func"), is_softmax.value_or(false) ? 1u : 2u);
  TESSERA_ASSIGN(const auto windows, draft.config.integers({"sliding_window_layout"}, 0, 1));
  TESSERA_ASSIGN(const auto ropes, draft.config.integers({"rope_layout"}, 0, 1));
  bool has_windows = false;
  for (const int64_t flag : windows.value_or(std::vector<int64_t>{})) has_windows = has_windows || flag != 0;
  for (const auto* list : {&windows, &ropes}) {
    for (size_t i = 0; *list && i < (*list)->size(); ++i) {
      const bool want = has_windows ? i % kPeriod != 0 : list == &ropes;
      if ((**list)[i] != int64_t{want})
        return fail(ErrorCode::unsupported, "{}: {} of layer {} is {}, want {}", draft.config.path(),
                    list == &ropes ? "rope_layout" : "sliding_window_layout", i, (**list)[i], int{want});
    }
  }
  if (!has_windows) return {};
  TESSERA_ASSIGN(const int64_t window, draft.config.require_integer({"sliding_window_size"}, 1, INT32_MAX));
  draft.builder.set(draft.key("attention.sliding_window"), static_cast<uint32_t>(window));
  return {};
}

constexpr ModelClass kExpertClasses[] = {
    {.names = "Dots1ForCausalLM", .architecture = "dots1", .rules = kNormedHeadsRules, .keys = kDots1Keys},
    {.names = "SmallThinkerForCausalLM",
     .architecture = "smallthinker",
     .rules = kSmallThinkerRules,
     .keys = kSmallThinkerKeys,
     .finish = finish_small_thinker},
};

}  // namespace

std::span<const ModelClass> experts_classes() { return kExpertClasses; }

}  // namespace tessera::convert
