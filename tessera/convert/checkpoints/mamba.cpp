// Mamba 1 and 2, and Jamba, which has attention in some layers.
#include <string>

#include "tessera/convert/checkpoints/mamba_pieces.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/mix.h"

namespace tessera::convert {

namespace {

constexpr uint32_t kNoLimit = 1u << 20;  // of the context: the state is all that a model keeps

constexpr TensorRule kMambaRules[] = {
    {"lm_head.weight", "output.weight"},
    {"embeddings.weight", "token_embd.weight"},
    {"norm_f.weight", "output_norm.weight"},
    {"layers.{i}.norm.weight", "blk.{i}.attn_norm.weight"},
    {"layers.{i}.mixer.A_log", "blk.{i}.ssm_a", Change::minus_exp},
    {"layers.{i}.mixer.D", "blk.{i}.ssm_d"},
    {"layers.{i}.mixer.conv1d.weight", "blk.{i}.ssm_conv1d.weight", Change::same, without_middle},
    {"layers.{i}.mixer.conv1d.bias", "blk.{i}.ssm_conv1d.bias"},
    {"layers.{i}.mixer.dt_proj.{}", "blk.{i}.ssm_dt.{}"},
    {"layers.{i}.mixer.in_proj.{}", "blk.{i}.ssm_in.{}"},
    {"layers.{i}.mixer.out_proj.{}", "blk.{i}.ssm_out.{}"},
    {"layers.{i}.mixer.x_proj.weight", "blk.{i}.ssm_x.weight"},
};

constexpr KeyRow kMambaKeys[] = {
    {"context_length", "", KeyType::u32, otherwise(kNoLimit)},
    {"feed_forward_length", "", KeyType::u32, otherwise(0)},
    {"attention.head_count", "", KeyType::u32, otherwise(0)},
    {"attention.head_count_kv", ""},
    {"attention.key_length", ""},
    {"attention.value_length", ""},
    {"attention.layer_norm_epsilon", ""},
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon rms_norm_eps", KeyType::f32, otherwise(1e-5)},
    {"ssm.conv_kernel", "conv_kernel d_conv", KeyType::u32, otherwise(4)},
    {"ssm.inner_size", "intermediate_size d_inner =mamba_width"},
    {"ssm.state_size", "state_size d_state", KeyType::u32, otherwise(16)},
    {"ssm.time_step_rank", "time_step_rank dt_rank =mamba_rank"},
    {"ssm.dt_b_c_rms", "", KeyType::boolean, otherwise(0)},
};

constexpr TensorRule kMamba2OnlyRules[] = {
    {"layers.{i}.mixer.A_log", "blk.{i}.ssm_a", Change::minus_exp, as_column},
    {"layers.{i}.mixer.D", "blk.{i}.ssm_d", Change::same, as_column},
    {"layers.{i}.mixer.dt_bias", "blk.{i}.ssm_dt.bias"},
    {"layers.{i}.mixer.norm.weight", "blk.{i}.ssm_norm.weight", Change::same, in_groups},
};

constexpr KeyRow kMamba2Keys[] = {
    {"ssm.dt_b_c_rms", ""},
    {"ssm.inner_size", "intermediate_size d_inner =mamba_width"},
    {"ssm.state_size", "state_size d_state", KeyType::u32, otherwise(128)},
    {"ssm.time_step_rank", "num_heads", KeyType::u32, kRequired},
    {"ssm.group_count", "n_groups", KeyType::u32, otherwise(1)},
};

constexpr TensorRule kJambaRules[] = {
    {"model.final_layernorm.weight", "output_norm.weight"},
    {"model.layers.{i}.pre_ff_layernorm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.feed_forward.gate_proj.weight", "blk.{i}.ffn_gate.weight"},
    {"model.layers.{i}.feed_forward.up_proj.weight", "blk.{i}.ffn_up.weight"},
    {"model.layers.{i}.feed_forward.down_proj.weight", "blk.{i}.ffn_down.weight"},
    {"model.layers.{i}.feed_forward.router.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.feed_forward.experts.{e}.gate_proj.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.feed_forward.experts.{e}.up_proj.weight", "blk.{i}.ffn_up_exps.weight"},
    {"model.layers.{i}.feed_forward.experts.{e}.down_proj.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.mamba.A_log", "blk.{i}.ssm_a", Change::minus_exp},
    {"model.layers.{i}.mamba.D", "blk.{i}.ssm_d"},
    {"model.layers.{i}.mamba.b_layernorm.weight", "blk.{i}.ssm_b_norm.weight"},
    {"model.layers.{i}.mamba.c_layernorm.weight", "blk.{i}.ssm_c_norm.weight"},
    {"model.layers.{i}.mamba.dt_layernorm.weight", "blk.{i}.ssm_dt_norm.weight"},
    {"model.layers.{i}.mamba.conv1d.weight", "blk.{i}.ssm_conv1d.weight", Change::same, without_middle},
    {"model.layers.{i}.mamba.conv1d.bias", "blk.{i}.ssm_conv1d.bias"},
    {"model.layers.{i}.mamba.dt_proj.{}", "blk.{i}.ssm_dt.{}"},
    {"model.layers.{i}.mamba.in_proj.{}", "blk.{i}.ssm_in.{}"},
    {"model.layers.{i}.mamba.out_proj.{}", "blk.{i}.ssm_out.{}"},
    {"model.layers.{i}.mamba.x_proj.weight", "blk.{i}.ssm_x.weight"},
};

constexpr KeyRow kJambaKeys[] = {
    {"attention.head_count_kv", ""},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"ssm.conv_kernel", "mamba_d_conv", KeyType::u32, otherwise(4)},
    {"ssm.inner_size", "=mamba_width"},
    {"ssm.state_size", "mamba_d_state", KeyType::u32, otherwise(16)},
    {"ssm.time_step_rank", "mamba_dt_rank =mamba_rank"},
};

// Attention is in every period-th layer, from the offset on.
Result<> add_jamba_heads(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto period, draft.config.integer({"attn_layer_period"}, 1, kMaxLayers));
  TESSERA_ASSIGN(const auto offset, draft.config.integer({"attn_layer_offset"}, 0, kMaxLayers));
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(draft.config));
  TESSERA_ASSIGN(const int64_t n_heads, kv_heads_of(draft.config));
  std::vector<int32_t> heads;
  for (int64_t i = 0; i < n_layers; ++i)
    heads.push_back(i % period.value_or(8) == offset.value_or(4) ? static_cast<int32_t>(n_heads) : 0);
  draft.builder.set_array(draft.key("attention.head_count_kv"), heads);
  return {};
}

// Layers without a router may have their FFN as that of expert 0.
Result<> name_only_experts(const HubConfig& config, std::vector<ConvertedTensor>& tensors) {
  constexpr std::string_view kStack = "_exps.weight", kWeight = ".weight";
  TESSERA_ASSIGN(const auto period, config.integer({"expert_layer_period"}, 1, kMaxLayers));
  TESSERA_ASSIGN(const auto offset, config.integer({"expert_layer_offset"}, 0, kMaxLayers));
  for (ConvertedTensor& tensor : tensors) {
    const int64_t layer = layer_of(tensor.name);
    if (!tensor.name.ends_with(kStack) || layer % period.value_or(2) == offset.value_or(1)) continue;
    if (tensor.shape[0] != 1)
      return fail(ErrorCode::mismatch, "{}: {} experts, and expert_layer_period says that layer {} has none",
                  tensor.name, tensor.shape[0], layer);
    tensor.name.replace(tensor.name.size() - kStack.size(), kStack.size(), kWeight);
    tensor.shape.erase(tensor.shape.begin());
  }
  return {};
}

constexpr ModelClass kMambaClasses[] = {
    {.names = "MambaForCausalLM MambaLMHeadModel",
     .architecture = "mamba",
     .rules = kMambaRules,
     .keys = kMambaKeys,
     .is_decoder = false,
     .prefix = "backbone.",
     .is_head_tied = true},
    {.names = "Mamba2ForCausalLM",
     .architecture = "mamba2",
     .rules = kMamba2OnlyRules,
     .keys = kMamba2Keys,
     .shared_rules = kMambaRules,
     .shared_keys = kMambaKeys,
     .is_decoder = false,
     .prefix = "backbone.",
     .is_head_tied = true},
    {.names = "JambaForCausalLM",
     .architecture = "jamba",
     .rules = kJambaRules,
     .keys = kJambaKeys,
     .rename = name_only_experts,
     .finish = add_jamba_heads},
};

}  // namespace

std::span<const ModelClass> mamba_classes() { return kMambaClasses; }

}  // namespace tessera::convert
