// Granite: Llama with four multipliers; with experts; and hybrid, with Mamba 2 in most layers.
#include <algorithm>

#include "tessera/convert/checkpoints/mamba_pieces.h"
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kGraniteRules[] = {
    {"model.layers.{i}.self_attn.q_proj.{}", "blk.{i}.attn_q.{}", Change::rope_q},
    {"model.layers.{i}.self_attn.k_proj.{}", "blk.{i}.attn_k.{}", Change::rope_k},
    {"model.layers.{i}.block_sparse_moe.router.layer.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.block_sparse_moe.input_linear.weight", "blk.{i}.ffn_gate_exps.weight", Change::first_half},
    {"model.layers.{i}.block_sparse_moe.input_linear.weight", "blk.{i}.ffn_up_exps.weight", Change::second_half},
    {"model.layers.{i}.block_sparse_moe.output_linear.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.shared_mlp.input_linear.weight", "blk.{i}.ffn_gate_shexp.weight", Change::first_half},
    {"model.layers.{i}.shared_mlp.input_linear.weight", "blk.{i}.ffn_up_shexp.weight", Change::second_half},
    {"model.layers.{i}.shared_mlp.output_linear.weight", "blk.{i}.ffn_down_shexp.weight"},
};

constexpr TensorRule kMamba2Rules[] = {
    {"model.layers.{i}.mamba.A_log", "blk.{i}.ssm_a", Change::minus_exp, as_column},
    {"model.layers.{i}.mamba.D", "blk.{i}.ssm_d", Change::same, as_column},
    {"model.layers.{i}.mamba.dt_bias", "blk.{i}.ssm_dt.bias"},
    {"model.layers.{i}.mamba.conv1d.weight", "blk.{i}.ssm_conv1d.weight", Change::same, without_middle},
    {"model.layers.{i}.mamba.conv1d.bias", "blk.{i}.ssm_conv1d.bias"},
    {"model.layers.{i}.mamba.in_proj.{}", "blk.{i}.ssm_in.{}"},
    {"model.layers.{i}.mamba.norm.weight", "blk.{i}.ssm_norm.weight", Change::same, in_groups},
    {"model.layers.{i}.mamba.out_proj.{}", "blk.{i}.ssm_out.{}"},
};

constexpr TensorRule kDenseGraniteRules[] = {
    {"model.layers.{i}.self_attn.q_proj.{}", "blk.{i}.attn_q.{}", Change::rope_q},
    {"model.layers.{i}.self_attn.k_proj.{}", "blk.{i}.attn_k.{}", Change::rope_k},
    {"model.layers.{i}.shared_mlp.input_linear.weight", "blk.{i}.ffn_gate.weight", Change::first_half},
    {"model.layers.{i}.shared_mlp.input_linear.weight", "blk.{i}.ffn_up.weight", Change::second_half},
    {"model.layers.{i}.shared_mlp.output_linear.weight", "blk.{i}.ffn_down.weight"},
};

constexpr KeyRow kGraniteKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
    {"attention.scale", "attention_multiplier", KeyType::f32, otherwise(1)},
    {"embedding_scale", "embedding_multiplier", KeyType::f32, otherwise(1)},
    {"residual_scale", "residual_multiplier", KeyType::f32, otherwise(1)},
    {"logit_scale", "logits_scaling", KeyType::f32, otherwise(1)},
    {"expert_shared_feed_forward_length", "shared_intermediate_size"},
};

// Without routed experts, the shared one is a plain FFN.
constexpr KeyRow kDenseGraniteKeys[] = {
    {"expert_count", ""},
    {"expert_used_count", ""},
    {"expert_shared_feed_forward_length", ""},
    {"feed_forward_length", "shared_intermediate_size"},
};

constexpr KeyRow kHybridKeys[] = {
    {"attention.head_count_kv", "layer_types", KeyType::kv_heads, kRequired},
    {"ssm.conv_kernel", "mamba_d_conv", KeyType::u32, otherwise(4)},
    {"ssm.state_size", "mamba_d_state", KeyType::u32, otherwise(256)},
    {"ssm.group_count", "mamba_n_groups", KeyType::u32, otherwise(1)},
    {"ssm.inner_size", "=mamba_width"},
    {"ssm.time_step_rank", "mamba_n_heads", KeyType::u32, otherwise(128)},
};

constexpr KeyRow kDenseHybridKeys[] = {
    {"expert_count", ""},
    {"expert_used_count", ""},
    {"expert_shared_feed_forward_length", ""},
    {"feed_forward_length", "shared_intermediate_size"},
    {"attention.head_count_kv", "layer_types", KeyType::kv_heads, kRequired},
    {"ssm.conv_kernel", "mamba_d_conv", KeyType::u32, otherwise(4)},
    {"ssm.state_size", "mamba_d_state", KeyType::u32, otherwise(256)},
    {"ssm.group_count", "mamba_n_groups", KeyType::u32, otherwise(1)},
    {"ssm.inner_size", "=mamba_width"},
    {"ssm.time_step_rank", "mamba_n_heads", KeyType::u32, otherwise(128)},
};

// A model without positions has no limit of its context; 2^20 stands for that.
Result<> finish_hybrid(ModelDraft& draft) {
  constexpr uint32_t kUnlimited = 1u << 20;
  TESSERA_ASSIGN(const auto positions, draft.config.text({"position_embedding_type"}));
  const bool uses_rope = positions == "rope";
  draft.builder.set(draft.key("rope.scaling.finetuned"), uses_rope);
  if (!uses_rope) draft.builder.set(draft.key("context_length"), kUnlimited);
  return {};
}

Result<bool> has_mamba(const HubConfig& config) {
  const Json* types = config.find({"layer_types", "layers_block_type"});
  return types != nullptr && types->is_array() && std::ranges::find(*types, Json("mamba")) != types->end();
}

Result<bool> has_experts(const HubConfig& config) {
  TESSERA_ASSIGN(const auto n, config.integer({"num_local_experts"}, 0, INT32_MAX));
  return n.value_or(0) > 0;
}

Result<bool> has_mamba_and_experts(const HubConfig& config) {
  TESSERA_ASSIGN(const bool mamba, has_mamba(config));
  TESSERA_ASSIGN(const bool experts, has_experts(config));
  return mamba && experts;
}

constexpr std::string_view kHybridNames = "GraniteMoeHybridForCausalLM";

constexpr ModelClass kGraniteClasses[] = {
    {.names = "GraniteForCausalLM", .architecture = "granite", .rules = kGraniteRules, .keys = kGraniteKeys},
    {.names = "GraniteMoeForCausalLM GraniteMoeSharedForCausalLM",
     .architecture = "granitemoe",
     .rules = kGraniteRules,
     .keys = kGraniteKeys},
    {.names = kHybridNames,
     .architecture = "granitehybrid",
     .rules = kGraniteRules,
     .keys = kHybridKeys,
     .shared_rules = kMamba2Rules,
     .shared_keys = kGraniteKeys,
     .fits = has_mamba_and_experts,
     .finish = finish_hybrid},
    {.names = kHybridNames,
     .architecture = "granitehybrid",
     .rules = kDenseGraniteRules,
     .keys = kDenseHybridKeys,
     .shared_rules = kMamba2Rules,
     .shared_keys = kGraniteKeys,
     .fits = has_mamba,
     .finish = finish_hybrid},
    {.names = kHybridNames,
     .architecture = "granitemoe",
     .rules = kGraniteRules,
     .keys = kGraniteKeys,
     .fits = has_experts},
    {.names = kHybridNames,
     .architecture = "granite",
     .rules = kDenseGraniteRules,
     .keys = kDenseGraniteKeys,
     .shared_keys = kGraniteKeys},
};

}  // namespace

std::span<const ModelClass> granite_classes() { return kGraniteClasses; }

}  // namespace tessera::convert
