// GLM 4: fused gate and up, norms after attention and FFN; and with experts, whose last layers predict further tokens.
#include <utility>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

bool has_sections(const HubConfig& config) {
  return config.find({"rope_parameters.mrope_section", "rope_scaling.mrope_section"}) != nullptr;
}

// Rope of several sections, which models have that see, pairs the first half of the rotated rows of a head with the
// second. In the checkpoint each pair is together.
Result<TensorPieces> halves_of_heads(const StoredTensor& tensor, const RuleFacts& facts, int64_t n_heads) {
  if (!has_sections(*facts.config)) return TensorPieces{{tensor}, tensor.shape};
  TESSERA_ASSIGN(const int64_t size, head_size_of(*facts.config));
  TESSERA_ASSIGN(const auto stated, number_of(*facts.config, "=rotated_half"));
  const auto n_rotated = static_cast<int64_t>(stated.value_or(0));
  if (tensor.shape.empty() || n_rotated < 2 || n_rotated % 2 != 0 || n_rotated > size ||
      tensor.shape[0] / size != n_heads || tensor.shape[0] % size != 0)
    return fail(ErrorCode::mismatch, "{}: want {} heads of {} rows, {} of them rotated", tensor.name, n_heads, size,
                n_rotated);
  TensorPieces pieces{.shape = tensor.shape};
  for (int64_t i = 0; i < n_heads; ++i) {
    std::vector<int64_t> pairs = {n_rotated / 2, 2};
    std::vector<size_t> order = {1, 0};
    if (tensor.shape.size() == 2) {
      pairs.push_back(tensor.shape[1]);
      order.push_back(2);
    }
    TESSERA_ASSIGN(const StoredTensor rotated, part_of(tensor, 0, i * size, n_rotated));
    TESSERA_ASSIGN(const StoredTensor apart, reshaped(rotated, std::move(pairs)));
    TESSERA_ASSIGN(StoredTensor halves, with_order(apart, order));
    TESSERA_ASSIGN(StoredTensor rest, part_of(tensor, 0, i * size + n_rotated, size - n_rotated));
    pieces.views.push_back(std::move(halves));
    if (n_rotated < size) pieces.views.push_back(std::move(rest));
  }
  return pieces;
}

Result<TensorPieces> halves_of_q(const StoredTensor& tensor, const RuleFacts& facts) {
  return halves_of_heads(tensor, facts, facts.heads.q);
}
Result<TensorPieces> halves_of_k(const StoredTensor& tensor, const RuleFacts& facts) {
  return halves_of_heads(tensor, facts, facts.heads.kv);
}

constexpr TensorRule kGlm4Rules[] = {
    {"model.layers.{i}.self_attn.q_proj.{}", "blk.{i}.attn_q.{}", Change::same, halves_of_q},
    {"model.layers.{i}.self_attn.k_proj.{}", "blk.{i}.attn_k.{}", Change::same, halves_of_k},
    {"model.layers.{i}.post_self_attn_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.post_mlp_layernorm.weight", "blk.{i}.post_ffw_norm.weight"},
    {"model.layers.{i}.mlp.gate_up_proj.weight", "blk.{i}.ffn_up.weight"},
};

constexpr KeyRow kGlm4Keys[] = {
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated_half"},
};

constexpr TensorRule kGlm4MoeRules[] = {
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
#include "tessera/convert/checkpoints/later_layers.def"
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
    {.names = "Glm4ForCausalLM Glm4vForConditionalGeneration",
     .architecture = "glm4",
     .rules = kGlm4Rules,
     .keys = kGlm4Keys},
    // Its rope pairs halves already.
    {.names = "Glm4MoeForCausalLM Glm4vMoeForConditionalGeneration",
     .architecture = "glm4moe",
     .rules = kGlm4MoeRules,
     .keys = kGlm4MoeKeys},
};

}  // namespace

std::span<const ModelClass> glm_classes() { return kGlmClasses; }

}  // namespace tessera::convert
