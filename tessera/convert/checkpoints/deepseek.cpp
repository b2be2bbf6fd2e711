// DeepSeek V1 with the rows of Llama; V2 and V3: multi-head latent attention, of which GGUF stores the compressed
// form; Mistral 4 in the form of V2; and Kimi Linear, which has it in some layers.
#include "tessera/convert/checkpoints/mamba_pieces.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/pieces.h"
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
  return one_view(std::move(view));
}

Result<TensorPieces> values_of_kv_b(const StoredTensor& tensor, const RuleFacts& facts) {
  int64_t n_key = 0, n_value = 0;
  TESSERA_ASSIGN(const StoredTensor heads, heads_of_kv_b(tensor, facts, n_key, n_value));
  TESSERA_ASSIGN(StoredTensor view, part_of(heads, 1, n_key, n_value));
  return one_view(std::move(view));
}

constexpr TensorRule kDeepseekRules[] = {
    {"model.layers.{i}.self_attn.q_a_proj.weight", "blk.{i}.attn_q_a.weight"},
    {"model.layers.{i}.self_attn.q_a_layernorm.weight", "blk.{i}.attn_q_a_norm.weight"},
    {"model.layers.{i}.self_attn.q_b_proj.weight", "blk.{i}.attn_q_b.weight"},
    {"model.layers.{i}.self_attn.kv_a_proj_with_mqa.weight", "blk.{i}.attn_kv_a_mqa.weight"},
    {"model.layers.{i}.self_attn.kv_a_layernorm.weight", "blk.{i}.attn_kv_a_norm.weight"},
    {"model.layers.{i}.self_attn.kv_b_proj.weight", "blk.{i}.attn_k_b.weight", Change::same, keys_of_kv_b},
    {"model.layers.{i}.self_attn.kv_b_proj.weight", "blk.{i}.attn_v_b.weight", Change::same, values_of_kv_b},
#include "tessera/convert/checkpoints/later_layers.def"
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

// A model whose weights of experts are not normalized has no such key.
Result<> finish_deepseek(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto is_normalized, draft.config.flag({"norm_topk_prob"}));
  if (is_normalized.value_or(false)) draft.builder.set(draft.key("expert_weights_norm"), true);
  return {};
}

// Experts keep gate and up in one matrix.
constexpr TensorRule kMistral4Rules[] = {
    {"model.layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_gate_up_exps.weight"},
};

constexpr KeyRow kMistral4Keys[] = {
    {"attention.temperature_scale", "rope_parameters.llama_4_scaling_beta rope_scaling.llama_4_scaling_beta",
     KeyType::f32},
};

// Models for images have a class that they share with those of Mistral 3.
Result<bool> is_mistral4(const HubConfig& config) {
  TESSERA_ASSIGN(const auto type, config.text({"model_type"}));
  return type == "mistral4" || config.class_name() == "Mistral4ForCausalLM";
}

Result<> finish_mistral4(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto has_pairs, draft.config.flag({"rope_interleave"}));
  if (!has_pairs.value_or(true))
    return fail(ErrorCode::unsupported, "{}: rope_interleave is false, want true", draft.config.path());
  return finish_deepseek(draft);
}

constexpr TensorRule kDeepseek1Rules[] = {
    {"model.layers.{i}.self_attn.q_proj.{}", "blk.{i}.attn_q.{}", Change::rope_q},
    {"model.layers.{i}.self_attn.k_proj.{}", "blk.{i}.attn_k.{}", Change::rope_k},
};

constexpr KeyRow kDeepseek1Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
    {"rope.scaling.type", "", KeyType::text, otherwise_text("none")},
    {"leading_dense_block_count", "first_k_dense_replace", KeyType::u32, otherwise(0)},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "n_shared_experts", KeyType::u32, otherwise(0)},
    {"expert_weights_scale", "", KeyType::f32, otherwise(1)},
};

// Convolutions of single channels, [n, 1, width].
Result<TensorPieces> with_middle(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  if (tensor.shape.size() < 2)
    return fail(ErrorCode::mismatch, "{}: {} dimensions, want a convolution", tensor.name, tensor.shape.size());
  return in_shape(tensor, {tensor.shape.front(), 1, tensor.shape.back()});
}

constexpr TensorRule kKimiLinearRules[] = {
    {"model.layers.{i}.self_attn.q_conv1d.weight", "blk.{i}.ssm_conv1d_q.weight", Change::same, with_middle},
    {"model.layers.{i}.self_attn.k_conv1d.weight", "blk.{i}.ssm_conv1d_k.weight", Change::same, with_middle},
    {"model.layers.{i}.self_attn.v_conv1d.weight", "blk.{i}.ssm_conv1d_v.weight", Change::same, with_middle},
    {"model.layers.{i}.self_attn.A_log", "blk.{i}.ssm_a", Change::minus_exp, as_column},
    {"model.layers.{i}.self_attn.dt_bias", "blk.{i}.ssm_dt.bias"},
    {"model.layers.{i}.self_attn.f_a_proj.weight", "blk.{i}.ssm_f_a.weight"},
    {"model.layers.{i}.self_attn.f_b_proj.weight", "blk.{i}.ssm_f_b.weight"},
    {"model.layers.{i}.self_attn.b_proj.weight", "blk.{i}.ssm_beta.weight"},
    {"model.layers.{i}.self_attn.g_a_proj.weight", "blk.{i}.ssm_g_a.weight"},
    {"model.layers.{i}.self_attn.g_b_proj.weight", "blk.{i}.ssm_g_b.weight"},
    {"model.layers.{i}.self_attn.o_norm.weight", "blk.{i}.ssm_norm.weight"},
    {"model.layers.{i}.block_sparse_moe.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.block_sparse_moe.gate.e_score_correction_bias", "blk.{i}.exp_probs_b.bias"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w1.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w2.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w3.weight", "blk.{i}.ffn_up_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.shared_experts.gate_proj.weight", "blk.{i}.ffn_gate_shexp.weight"},
    {"model.layers.{i}.block_sparse_moe.shared_experts.up_proj.weight", "blk.{i}.ffn_up_shexp.weight"},
    {"model.layers.{i}.block_sparse_moe.shared_experts.down_proj.weight", "blk.{i}.ffn_down_shexp.weight"},
};

constexpr KeyRow kKimiLinearKeys[] = {
    {"context_length", "model_max_length *", KeyType::u32, kRequired},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"expert_count", "num_experts", KeyType::u32, kRequired},
    {"expert_shared_count", "num_shared_experts", KeyType::u32, otherwise(1)},
    {"expert_group_count", "num_expert_group"},
    {"expert_gating_func", "moe_router_activation_func", KeyType::function, otherwise_text("sigmoid")},
    {"kda.head_dim", "linear_attn_config.head_dim", KeyType::u32, kRequired},
    {"ssm.conv_kernel", "linear_attn_config.short_conv_kernel_size", KeyType::u32, kRequired},
};

// Layers of a list, which counts from 1, have latent attention. The others have a delta rule, and no KV heads.
Result<> finish_kimi_linear(ModelDraft& draft) {
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(config));
  TESSERA_ASSIGN(const int64_t n_heads, heads_of(config));
  TESSERA_ASSIGN(const auto n_linear, config.integer({"linear_attn_config.num_heads"}, 1, INT32_MAX));
  if (n_linear.value_or(n_heads) != n_heads)
    return fail(ErrorCode::unsupported, "{}: linear_attn_config.num_heads differs from num_attention_heads",
                config.path());
  TESSERA_ASSIGN(const auto stated, config.integers({"linear_attn_config.full_attn_layers"}, 1, kMaxLayers));
  std::vector<int32_t> heads(static_cast<size_t>(n_layers));
  for (const int64_t layer : stated.value_or(std::vector<int64_t>{}))
    if (layer <= n_layers) heads[static_cast<size_t>(layer - 1)] = 1;
  draft.builder.set_array(draft.key("attention.head_count_kv"), heads);
  return {};
}

constexpr ModelClass kDeepseekClasses[] = {
    {.names = "KimiLinearForCausalLM KimiLinearModel",
     .architecture = "kimi-linear",
     .rules = kKimiLinearRules,
     .keys = kKimiLinearKeys,
     .shared_rules = kDeepseekRules,
     .shared_keys = kDeepseekKeys,
     .scaling = RopeScaling::none,
     .finish = finish_kimi_linear},
    {.names = "DeepseekForCausalLM",
     .architecture = "deepseek",
     .rules = kDeepseek1Rules,
     .keys = kDeepseek1Keys,
     .scaling = RopeScaling::none},
    {.names = "DeepseekV2ForCausalLM",
     .architecture = "deepseek2",
     .rules = kDeepseekRules,
     .keys = kDeepseekKeys,
     .later_layers = LaterLayers::dropped,
     .finish = finish_deepseek},
    {.names = "Mistral4ForCausalLM Mistral3ForConditionalGeneration",
     .architecture = "mistral4",
     .rules = kMistral4Rules,
     .keys = kMistral4Keys,
     .shared_rules = kDeepseekRules,
     .shared_keys = kDeepseekKeys,
     .fits = is_mistral4,
     .finish = finish_mistral4},
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
