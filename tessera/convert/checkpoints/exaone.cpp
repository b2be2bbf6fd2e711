// EXAONE 3, 4, and with experts (K-EXAONE).
#include <memory>

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kExaoneRules[] = {
    {"lm_head.weight", "output.weight"},
    {"wte.weight", "token_embd.weight"},
    {"ln_f.weight", "output_norm.weight"},
    {"h.{i}.ln_1.weight", "blk.{i}.attn_norm.weight"},
    {"h.{i}.ln_2.weight", "blk.{i}.ffn_norm.weight"},
    {"h.{i}.attn.attention.q_proj.{}", "blk.{i}.attn_q.{}"},
    {"h.{i}.attn.attention.k_proj.{}", "blk.{i}.attn_k.{}"},
    {"h.{i}.attn.attention.v_proj.{}", "blk.{i}.attn_v.{}"},
    {"h.{i}.attn.attention.out_proj.{}", "blk.{i}.attn_output.{}"},
    {"h.{i}.mlp.c_fc_0.{}", "blk.{i}.ffn_gate.{}"},
    {"h.{i}.mlp.c_fc_1.{}", "blk.{i}.ffn_up.{}"},
    {"h.{i}.mlp.c_proj.{}", "blk.{i}.ffn_down.{}"},
};

constexpr KeyRow kExaoneKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", ""},
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon rms_norm_eps", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated"},
};

constexpr TensorRule kExaone4Rules[] = {
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight"},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kExaone4Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"attention.sliding_window", "sliding_window"},
};

// The layers with a window: a list of names, or a pattern that repeats, such as LLLG.
Result<> add_exaone4_windows(ModelDraft& draft) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  if (draft.config.find({"sliding_window"}) == nullptr) return {};
  constexpr KeyRow kWindows[] = {{kKey, "layer_types", KeyType::windows}};
  if (draft.config.find({"layer_types"}) != nullptr)
    return add_rows(draft.config, draft.architecture, kWindows, draft.builder);
  TESSERA_ASSIGN(const auto pattern, draft.config.text({"sliding_window_pattern"}));
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(draft.config));
  if (!pattern || pattern->empty() || pattern->find_first_not_of("LG") != std::string::npos)
    return fail(ErrorCode::format, "{}: sliding_window_pattern: want letters L and G, or layer_types",
                draft.config.path());
  const auto n = static_cast<size_t>(n_layers);
  const std::unique_ptr<bool[]> windows(new bool[n]);
  for (size_t i = 0; i < n; ++i) windows[i] = (*pattern)[i % pattern->size()] == 'L';
  draft.builder.set_array(draft.key(kKey), std::span<const bool>(windows.get(), n));
  return {};
}

constexpr TensorRule kExaoneMoeRules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
    {"model.layers.{i}.mlp.e_score_correction_bias", "blk.{i}.exp_probs_b.bias"},
    {"mtp.*", "", Change::drop},  // layers that predict further tokens, which no model of this architecture reads
};

constexpr KeyRow kExaoneMoeKeys[] = {
    {"attention.sliding_window", "sliding_window", KeyType::u32, kRequired},
    {"leading_dense_block_count", "first_k_dense_replace first_last_k_dense_replace", KeyType::u32, otherwise(0)},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "num_shared_experts"},
    {"expert_shared_feed_forward_length", "=shared_width"},
    {"expert_gating_func", "*", KeyType::function, otherwise_text("sigmoid")},
    {"expert_weights_scale", "routed_scaling_factor", KeyType::f32, otherwise(1)},
    {"expert_weights_norm", "norm_topk_prob", KeyType::boolean, otherwise(1)},
    {"rope.scaling.type", "", KeyType::text, otherwise_text("none")},
};

constexpr ModelClass kExaoneClasses[] = {
    {.names = "ExaoneForCausalLM",
     .architecture = "exaone",
     .rules = kExaoneRules,
     .keys = kExaoneKeys,
     .is_decoder = false,
     .prefix = "transformer."},
    {.names = "Exaone4ForCausalLM",
     .architecture = "exaone4",
     .rules = kExaone4Rules,
     .keys = kExaone4Keys,
     .finish = add_exaone4_windows},
    {.names = "ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
     .architecture = "exaone-moe",
     .rules = kExaoneMoeRules,
     .keys = kExaoneMoeKeys,
     .shared_keys = kExaone4Keys,
     .scaling = RopeScaling::none,
     .finish = add_exaone4_windows},
};

}  // namespace

std::span<const ModelClass> exaone_classes() { return kExaoneClasses; }

}  // namespace tessera::convert
