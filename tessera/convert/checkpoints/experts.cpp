// Mixtures of experts that differ from Qwen's by a few rows.
#include <nlohmann/json.hpp>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/gguf/keys.h"
#include "tessera/text/utf8.h"

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

constexpr TensorRule kArcticRules[] = {
    {"model.layers.{i}.self_attn.q_proj.weight", "blk.{i}.attn_q.weight", Change::rope_q},
    {"model.layers.{i}.self_attn.k_proj.weight", "blk.{i}.attn_k.weight", Change::rope_k},
    {"model.layers.{i}.residual_layernorm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm_exps.weight"},
    {"model.layers.{i}.residual_mlp.w1.weight", "blk.{i}.ffn_gate.weight"},
    {"model.layers.{i}.residual_mlp.w2.weight", "blk.{i}.ffn_down.weight"},
    {"model.layers.{i}.residual_mlp.w3.weight", "blk.{i}.ffn_up.weight"},
};

// Experts under the names of Mixtral.
constexpr TensorRule kSparseRules[] = {
    {"model.layers.{i}.block_sparse_moe.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.block_sparse_moe.e_score_correction_bias", "blk.{i}.exp_probs_b.bias"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w1.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w2.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w3.weight", "blk.{i}.ffn_up_exps.weight"},
};

constexpr KeyRow kArcticKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(1e6)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=plain_head_size"},
};

constexpr KeyRow kMiniMaxKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(5e6)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"rope.dimension_count", "rotary_dim", KeyType::u32, kRequired},
    {"expert_feed_forward_length", "intermediate_size", KeyType::u32, kRequired},
    {"expert_gating_func", "*", KeyType::function, otherwise_text("sigmoid")},
};

constexpr TensorRule kAfmoeRules[] = {
    {"model.layers.{i}.self_attn.gate_proj.weight", "blk.{i}.attn_gate.weight"},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.pre_mlp_layernorm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.post_mlp_layernorm.weight", "blk.{i}.post_ffw_norm.weight"},
    {"model.layers.{i}.mlp.router.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.mlp.expert_bias", "blk.{i}.exp_probs_b.bias"},
};

constexpr KeyRow kAfmoeKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"attention.sliding_window", "sliding_window"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
    {"leading_dense_block_count", "num_dense_layers", KeyType::u32, otherwise(0)},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "num_shared_experts", KeyType::u32, otherwise(0)},
    {"expert_gating_func", "score_func *", KeyType::function, otherwise_text("sigmoid")},
    {"expert_weights_norm", "route_norm", KeyType::boolean, otherwise(0)},
    {"expert_weights_scale", "route_scale", KeyType::f32, otherwise(1)},
};

// The runtime has a full layer after three with a window, and scales embeddings by the root of their length.
Result<> check_afmoe(ModelDraft& draft) {
  constexpr size_t kPeriod = 4;
  TESSERA_ASSIGN(const auto is_scaled, draft.config.flag({"mup_enabled"}));
  if (!is_scaled.value_or(true))
    return fail(ErrorCode::unsupported, "{}: mup_enabled is false, want true", draft.config.path());
  TESSERA_ASSIGN(const auto stated, layer_types_of(draft.config));
  const std::vector<std::string> types = stated.value_or(std::vector<std::string>{});
  for (size_t i = 0; i < types.size(); ++i)
    if ((types[i] == "full_attention") != ((i + 1) % kPeriod == 0))
      return fail(ErrorCode::unsupported, "{}: layer_types of layer {} is {}, want full_attention in every fourth only",
                  draft.config.path(), i, text::quote_text(types[i]));
  return {};
}

constexpr KeyRow kMellumKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "layer_types", KeyType::windows},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
};

Result<> finish_mellum(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto uses_windows, draft.config.flag({"use_sliding_window"}));
  if (uses_windows.value_or(true)) return {};
  draft.builder.remove(draft.key("attention.sliding_window"));
  draft.builder.remove(draft.key("attention.sliding_window_pattern"));
  return {};
}

constexpr KeyRow kRnd1Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"expert_feed_forward_length", "moe_intermediate_size expert_intermediate_size", KeyType::u32, kRequired},
    {"attention.causal", "", KeyType::boolean, otherwise(0)},
};

// Configs do not state the token of the mask.
Result<> finish_llada_moe(ModelDraft& draft) {
  constexpr uint32_t kMask = 156895;
  TESSERA_ASSIGN(const auto n_tokens, draft.config.integer({"vocab_size"}, 0, INT32_MAX));
  if (n_tokens.value_or(0) > kMask) draft.builder.set(keys::kMaskId, kMask);
  draft.builder.set("diffusion.shift_logits", false);
  return {};
}

constexpr TensorRule kGrokRules[] = {
    {"transformer.in_out_embed.weight", "token_embd.weight"},
    {"transformer.rms_norm.weight", "output_norm.weight"},
    {"transformer.decoder_layer.{i}.rms_norm.weight", "blk.{i}.attn_norm.weight"},
    {"transformer.decoder_layer.{i}.rms_norm_1.weight", "blk.{i}.attn_output_norm.weight"},
    {"transformer.decoder_layer.{i}.rms_norm_2.weight", "blk.{i}.ffn_norm.weight"},
    {"transformer.decoder_layer.{i}.rms_norm_3.weight", "blk.{i}.layer_output_norm.weight"},
    {"transformer.decoder_layer.{i}.multi_head_attention.query.{}", "blk.{i}.attn_q.{}"},
    {"transformer.decoder_layer.{i}.multi_head_attention.key.{}", "blk.{i}.attn_k.{}"},
    {"transformer.decoder_layer.{i}.multi_head_attention.value.{}", "blk.{i}.attn_v.{}"},
    {"transformer.decoder_layer.{i}.multi_head_attention.linear.weight", "blk.{i}.attn_output.weight"},
    {"transformer.decoder_layer.{i}.router.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"transformer.decoder_layer.{i}.moe.{e}.linear.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"transformer.decoder_layer.{i}.moe.{e}.linear_1.weight", "blk.{i}.ffn_down_exps.weight"},
    {"transformer.decoder_layer.{i}.moe.{e}.linear_v.weight", "blk.{i}.ffn_up_exps.weight"},
    // Grok 2
    {"model.layers.{i}.pre_attn_norm.weight", "blk.{i}.attn_norm.weight"},
    {"model.layers.{i}.post_attn_norm.weight", "blk.{i}.attn_output_norm.weight"},
    {"model.layers.{i}.pre_moe_norm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.post_moe_norm.weight", "blk.{i}.post_ffw_norm.weight"},
};

constexpr KeyRow kGrokKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"attention.output_scale", "attn_output_multiplier", KeyType::f32, kRequired},
    {"attention.temperature_length", "attn_temperature_len"},
    {"attn_logit_softcapping", "attn_logit_softcapping", KeyType::f32, otherwise(30)},
    {"router_logit_softcapping", "router_logit_softcapping", KeyType::f32, otherwise(30)},
    {"final_logit_softcapping", "final_logit_softcapping", KeyType::f32},
    {"embedding_scale", "embedding_multiplier_scale", KeyType::f32, kRequired},
    {"logit_scale", "output_multiplier_scale", KeyType::f32, kRequired},
    {"expert_feed_forward_length", "moe_intermediate_size"},
};

// The settings of YaRN are members of the config itself. The rope type "original" means YaRN as well.
Result<> finish_grok(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto type, draft.config.text({"rope_type"}));
  if (type != "yarn" && type != "original") return {};
  constexpr KeyRow kYarnKeys[] = {
      {"rope.scaling.type", "", KeyType::text, otherwise_text("yarn")},
      {"rope.scaling.factor", "scaling_factor", KeyType::f32, kRequired},
      {"rope.scaling.original_context_length", "original_max_position_embeddings", KeyType::u32, kRequired},
      {"rope.scaling.yarn_ext_factor", "extrapolation_factor", KeyType::f32, kRequired},
      {"rope.scaling.yarn_attn_factor", "attn_factor", KeyType::f32, kRequired},
      {"rope.scaling.yarn_beta_fast", "beta_fast", KeyType::f32, kRequired},
      {"rope.scaling.yarn_beta_slow", "beta_slow", KeyType::f32, kRequired},
  };
  return add_rows(draft.config, draft.architecture, kYarnKeys, draft.builder);
}

constexpr ModelClass kExpertClasses[] = {
    {.names = "ArcticForCausalLM",
     .architecture = "arctic",
     .rules = kArcticRules,
     .keys = kArcticKeys,
     .shared_rules = kSparseRules},
    {.names = "MiniMaxM2ForCausalLM",
     .architecture = "minimax-m2",
     .rules = kNormedHeadsRules,
     .keys = kMiniMaxKeys,
     .shared_rules = kSparseRules},
    {.names = "AfmoeForCausalLM",
     .architecture = "afmoe",
     .rules = kAfmoeRules,
     .keys = kAfmoeKeys,
     .shared_rules = kNormedHeadsRules,
     .finish = check_afmoe},
    {.names = "MellumForCausalLM",
     .architecture = "mellum",
     .rules = kNormedHeadsRules,
     .keys = kMellumKeys,
     .finish = finish_mellum},
    {.names = "RND1", .architecture = "rnd1", .rules = kNormedHeadsRules, .keys = kRnd1Keys},
    {.names = "LLaDAMoEModel LLaDAMoEModelLM",
     .architecture = "llada-moe",
     .rules = kNormedHeadsRules,
     .keys = kRnd1Keys,
     .finish = finish_llada_moe},
    {.names = "GrokForCausalLM Grok1ForCausalLM",
     .architecture = "grok",
     .rules = kGrokRules,
     .keys = kGrokKeys,
     .shared_rules = kSparseRules,
     .finish = finish_grok},
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
