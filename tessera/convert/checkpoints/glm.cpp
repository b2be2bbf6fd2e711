// GLM 4: fused gate and up, norms after attention and FFN; and with experts, whose last layers predict further tokens.
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kGlm4Rules[] = {
    {"model.layers.{i}.post_self_attn_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.post_mlp_layernorm.weight", "blk.{i}.post_ffw_norm.weight"},
    {"model.layers.{i}.mlp.gate_up_proj.weight", "blk.{i}.ffn_up.weight"},
};

constexpr KeyRow kGlm4Keys[] = {
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated_half"},
};

// Models that see have another order of rows.
Result<> check_glm4(ModelDraft& draft) {
  if (draft.config.find({"rope_parameters.mrope_section", "rope_scaling.mrope_section"}) == nullptr) return {};
  return fail(ErrorCode::unsupported, "{}: rope of several sections is not converted for {}", draft.config.path(),
              draft.architecture);
}

constexpr TensorRule kGlm4MoeRules[] = {
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
    {"model.layers.{i}.eh_proj.weight", "blk.{i}.nextn.eh_proj.weight"},
    {"model.layers.{i}.embed_tokens.weight", "blk.{i}.nextn.embed_tokens.weight"},
    {"model.layers.{i}.enorm.weight", "blk.{i}.nextn.enorm.weight"},
    {"model.layers.{i}.hnorm.weight", "blk.{i}.nextn.hnorm.weight"},
    {"model.layers.{i}.shared_head.head.weight", "blk.{i}.nextn.shared_head_head.weight"},
    {"model.layers.{i}.shared_head.norm.weight", "blk.{i}.nextn.shared_head_norm.weight"},
};

constexpr KeyRow kGlm4MoeKeys[] = {
    {"block_count", "=all_layers"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated_half"},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "n_shared_experts"},
    {"leading_dense_block_count", "first_k_dense_replace"},
    {"expert_gating_func", "", KeyType::function, otherwise_text("sigmoid")},
    {"expert_weights_scale", "routed_scaling_factor", KeyType::f32},
    {"expert_weights_norm", "norm_topk_prob", KeyType::boolean},
    {"nextn_predict_layers", "num_nextn_predict_layers"},
};

constexpr ModelClass kGlmClasses[] = {
    {.names = "Glm4ForCausalLM", .architecture = "glm4", .rules = kGlm4Rules, .keys = kGlm4Keys, .finish = check_glm4},
    {.names = "Glm4MoeForCausalLM",
     .architecture = "glm4moe",
     .rules = kGlm4MoeRules,
     .keys = kGlm4MoeKeys,
     .finish = check_glm4},
};

}  // namespace

std::span<const ModelClass> glm_classes() { return kGlmClasses; }

}  // namespace tessera::convert
