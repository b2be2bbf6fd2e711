// DeepSeek V2 and V3: multi-head latent attention, of which GGUF stores the compressed form.
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

// Rows of each head: its keys without rope, and its values.
Result<StoredTensor> heads_of_kv_b(const StoredTensor& tensor, const RuleFacts& facts, int64_t& n_key,
                                   int64_t& n_value) {
  TESSERA_ASSIGN(n_key, facts.config->require_integer({"qk_nope_head_dim"}, 1, INT32_MAX));
  TESSERA_ASSIGN(n_value, facts.config->require_integer({"v_head_dim"}, 1, INT32_MAX));
  const int64_t n_heads = facts.heads.kv, n_rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  if (tensor.shape.size() != 2 || n_rows != n_heads * (n_key + n_value))
    return fail(ErrorCode::mismatch, "{}: {} rows, want {} heads of {} and {}", tensor.name, n_rows, n_heads, n_key,
                n_value);
  return reshaped(tensor, {n_heads, n_key + n_value, tensor.shape[1]});
}

Result<TensorPieces> keys_of_kv_b(const StoredTensor& tensor, const RuleFacts& facts) {
  int64_t n_key = 0, n_value = 0;
  TESSERA_ASSIGN(const StoredTensor heads, heads_of_kv_b(tensor, facts, n_key, n_value));
  TESSERA_ASSIGN(const StoredTensor keys, part_of(heads, 1, 0, n_key));
  constexpr size_t kOrder[] = {0, 2, 1};
  TESSERA_ASSIGN(StoredTensor view, with_order(keys, kOrder));
  std::vector<int64_t> shape = view.shape;
  return TensorPieces{{std::move(view)}, std::move(shape)};
}

Result<TensorPieces> values_of_kv_b(const StoredTensor& tensor, const RuleFacts& facts) {
  int64_t n_key = 0, n_value = 0;
  TESSERA_ASSIGN(const StoredTensor heads, heads_of_kv_b(tensor, facts, n_key, n_value));
  TESSERA_ASSIGN(StoredTensor view, part_of(heads, 1, n_key, n_value));
  std::vector<int64_t> shape = view.shape;
  return TensorPieces{{std::move(view)}, std::move(shape)};
}

constexpr TensorRule kDeepseekRules[] = {
    {"model.layers.{i}.self_attn.q_a_proj.weight", "blk.{i}.attn_q_a.weight"},
    {"model.layers.{i}.self_attn.q_a_layernorm.weight", "blk.{i}.attn_q_a_norm.weight"},
    {"model.layers.{i}.self_attn.q_b_proj.weight", "blk.{i}.attn_q_b.weight"},
    {"model.layers.{i}.self_attn.kv_a_proj_with_mqa.weight", "blk.{i}.attn_kv_a_mqa.weight"},
    {"model.layers.{i}.self_attn.kv_a_layernorm.weight", "blk.{i}.attn_kv_a_norm.weight"},
    {"model.layers.{i}.self_attn.kv_b_proj.weight", "blk.{i}.attn_k_b.weight", Change::same, keys_of_kv_b},
    {"model.layers.{i}.self_attn.kv_b_proj.weight", "blk.{i}.attn_v_b.weight", Change::same, values_of_kv_b},
    // Of layers that predict further tokens, which are left out.
    {"model.layers.{i}.eh_proj.weight", "", Change::drop},
    {"model.layers.{i}.embed_tokens.weight", "", Change::drop},
    {"model.layers.{i}.enorm.weight", "", Change::drop},
    {"model.layers.{i}.hnorm.weight", "", Change::drop},
    {"model.layers.{i}.shared_head.head.weight", "", Change::drop},
    {"model.layers.{i}.shared_head.norm.weight", "", Change::drop},
};

constexpr KeyRow kDeepseekKeys[] = {
    {"attention.head_count_kv", "", KeyType::u32, otherwise(1)},  // in the compressed form
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"leading_dense_block_count", "first_k_dense_replace", KeyType::u32, otherwise(0)},
    {"attention.q_lora_rank", "q_lora_rank"},
    {"attention.kv_lora_rank", "kv_lora_rank", KeyType::u32, kRequired},
    {"attention.key_length", "=latent_key", KeyType::u32, kRequired},
    {"attention.value_length", "kv_lora_rank", KeyType::u32, kRequired},
    {"attention.key_length_mla", "=full_key", KeyType::u32, kRequired},
    {"attention.value_length_mla", "v_head_dim", KeyType::u32, kRequired},
    {"rope.dimension_count", "qk_rope_head_dim", KeyType::u32, kRequired},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_weights_scale", "routed_scaling_factor", KeyType::f32, otherwise(1)},
    {"rope.scaling.yarn_log_multiplier",
     "rope_parameters.mscale_all_dim rope_scaling.mscale_all_dim",
     KeyType::f32,
     {},
     0.1},
};

constexpr KeyRow kDeepseek3Keys[] = {
    {"expert_group_count", "*", KeyType::u32, otherwise(8)},
    {"expert_group_used_count", "*", KeyType::u32, otherwise(4)},
    {"expert_weights_scale", "routed_scaling_factor", KeyType::f32, otherwise(2.5)},
    {"expert_gating_func", "*", KeyType::function, otherwise_text("sigmoid")},
};

// Weights of experts that are not normalized have no key.
Result<> finish_deepseek(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto is_normalized, draft.config.flag({"norm_topk_prob"}));
  if (is_normalized.value_or(false)) draft.builder.set(draft.key("expert_weights_norm"), true);
  return {};
}

constexpr ModelClass kDeepseekClasses[] = {
    {.names = "DeepseekV2ForCausalLM",
     .architecture = "deepseek2",
     .rules = kDeepseekRules,
     .keys = kDeepseekKeys,
     .later_layers = LaterLayers::dropped,
     .finish = finish_deepseek},
    {.names = "DeepseekV3ForCausalLM Glm4MoeLiteForCausalLM",
     .architecture = "deepseek2",
     .rules = kDeepseekRules,
     .keys = kDeepseek3Keys,
     .shared_keys = kDeepseekKeys,
     .later_layers = LaterLayers::dropped,
     .finish = finish_deepseek},
};

}  // namespace

std::span<const ModelClass> deepseek_classes() { return kDeepseekClasses; }

}  // namespace tessera::convert
