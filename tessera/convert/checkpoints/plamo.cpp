// PLaMo 2, which has Mamba in most layers, and PLaMo 3, which has windows in most layers. Norms store the difference
// from a constant: 1 before a block, 1/5 and (1/5)^1.5 after it.
#include <vector>

#include "tessera/convert/checkpoints/mamba_pieces.h"
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kPlamoRules[] = {
    {"model.norm.weight", "output_norm.weight", Change::add_one},
    {"model.layers.layers.{i}.pre_mixer_norm.weight", "blk.{i}.attn_norm.weight", Change::add_one},
    {"model.layers.layers.{i}.post_mixer_norm.weight", "blk.{i}.post_attention_norm", Change::add_fifth},
    {"model.layers.layers.{i}.pre_mlp_norm.weight", "blk.{i}.ffn_norm.weight", Change::add_one},
    {"model.layers.layers.{i}.post_mlp_norm.weight", "blk.{i}.post_ffw_norm", Change::add_fifth_to_1_5},
    {"model.layers.layers.{i}.mixer.qkv_proj.weight", "blk.{i}.attn_qkv.weight"},
    {"model.layers.layers.{i}.mixer.o_proj.weight", "blk.{i}.attn_output.weight"},
    {"model.layers.layers.{i}.mlp.gate_up_proj.weight", "blk.{i}.ffn_up.weight"},
    {"model.layers.layers.{i}.mlp.down_proj.weight", "blk.{i}.ffn_down.weight"},
};

// The names in GGUF of norms that are parts of a block end without .weight.
constexpr TensorRule kPlamo2Rules[] = {
    {"model.layers.layers.{i}.mixer.q_weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.layers.{i}.mixer.k_weight", "blk.{i}.attn_k_norm.weight"},
    {"model.layers.layers.{i}.mixer.A_log", "blk.{i}.ssm_a", Change::minus_exp},
    {"model.layers.layers.{i}.mixer.D", "blk.{i}.ssm_d"},
    {"model.layers.layers.{i}.mixer.B_norm_weight", "blk.{i}.ssm_b_norm"},
    {"model.layers.layers.{i}.mixer.C_norm_weight", "blk.{i}.ssm_c_norm"},
    {"model.layers.layers.{i}.mixer.dt_norm_weight", "blk.{i}.ssm_dt_norm"},
    {"model.layers.layers.{i}.mixer.dt_bias", "blk.{i}.ssm_dt.bias"},
    {"model.layers.layers.{i}.mixer.dt_proj.weight", "blk.{i}.ssm_dt.weight"},
    {"model.layers.layers.{i}.mixer.bcdt_proj.weight", "blk.{i}.ssm_x.weight"},
    {"model.layers.layers.{i}.mixer.conv1d.weight", "blk.{i}.ssm_conv1d.weight", Change::same, without_middle},
    {"model.layers.layers.{i}.mixer.in_proj.weight", "blk.{i}.ssm_in.weight"},
    {"model.layers.layers.{i}.mixer.out_proj.weight", "blk.{i}.ssm_out.weight"},
};

constexpr KeyRow kPlamo2Keys[] = {
    {"context_length", "*", KeyType::u32, otherwise(2048)},
    {"embedding_length", "*", KeyType::u32, otherwise(4096)},
    {"feed_forward_length", "*", KeyType::u32, otherwise(13312)},
    {"attention.head_count", ""},
    {"attention.head_count_kv", ""},
    {"attention.key_length", "hidden_size_per_head", KeyType::u32, otherwise(128)},
    {"attention.value_length", "hidden_size_per_head", KeyType::u32, otherwise(128)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"ssm.conv_kernel", "mamba_d_conv", KeyType::u32, otherwise(4)},
    {"ssm.inner_size", "=plamo2_width"},
    {"ssm.state_size", "mamba_d_state", KeyType::u32, otherwise(64)},
    {"ssm.time_step_rank", "mamba_num_heads", KeyType::u32, otherwise(64)},
    {"ssm.group_count", "", KeyType::u32, otherwise(0)},
};

constexpr TensorRule kPlamo3Rules[] = {
    {"model.layers.layers.{i}.mixer.q_norm.weight", "blk.{i}.attn_q_norm.weight", Change::add_one},
    {"model.layers.layers.{i}.mixer.k_norm.weight", "blk.{i}.attn_k_norm.weight", Change::add_one},
};

constexpr int64_t kPlamo3Period = 8;

constexpr KeyRow kPlamo3Keys[] = {
    {"context_length", "*", KeyType::u32, otherwise(2048)},
    {"attention.key_length", "*", KeyType::u32, otherwise(128)},
    {"attention.value_length", "*", KeyType::u32, otherwise(128)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.sliding_window", "window_size sliding_window"},
    {"attention.sliding_window_pattern", "sliding_window_pattern", KeyType::u32, otherwise(kPlamo3Period)},
    {"rope.freq_base", "*", KeyType::f32, kRequired},
    {"rope.freq_base_swa", "*", KeyType::f32, otherwise(10000)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
};

// One layer of each period has attention: the one in its middle, or the last layer of a model that is shorter.
Result<> add_plamo2_heads(ModelDraft& draft) {
  constexpr int64_t kAbsentHeads = 32, kAbsentKvHeads = 4, kMaxHeads = 1 << 16;
  TESSERA_ASSIGN(const auto period, draft.config.integer({"mamba_step"}, 1, kMaxLayers));
  TESSERA_ASSIGN(const auto has_mamba, draft.config.flag({"mamba_enabled"}));
  TESSERA_ASSIGN(const auto heads, draft.config.integer({"num_attention_heads"}, 1, kMaxHeads));
  TESSERA_ASSIGN(const auto kv_heads, draft.config.integer({"num_key_value_heads"}, 1, kMaxHeads));
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(draft.config));
  const int64_t step = period.value_or(2);
  std::vector<int32_t> counts, kv_counts;
  for (int64_t i = 0; i < n_layers; ++i) {
    const bool is_chosen = n_layers <= step / 2 ? i == n_layers - 1 : i % step == step / 2;
    const bool has_attention = is_chosen || !has_mamba.value_or(true);
    counts.push_back(has_attention ? static_cast<int32_t>(heads.value_or(kAbsentHeads)) : 0);
    kv_counts.push_back(has_attention ? static_cast<int32_t>(kv_heads.value_or(kAbsentKvHeads)) : 0);
  }
  draft.builder.set_array(draft.key("attention.head_count"), counts);
  draft.builder.set_array(draft.key("attention.head_count_kv"), kv_counts);
  return {};
}

// Settings for which the architecture plamo3 has no keys.
Result<> check_plamo3(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto factor, draft.config.number({"rope_scaling_factor"}));
  if (factor.value_or(1) != 1)
    return fail(ErrorCode::unsupported, "{}: rope_scaling_factor {}, supported: 1", draft.config.path(), *factor);
  TESSERA_ASSIGN(const auto is_scaled, draft.config.flag({"scale_embedding"}));
  if (is_scaled.value_or(false))
    return fail(ErrorCode::unsupported, "{}: scale_embedding is not supported", draft.config.path());
  return {};
}

constexpr ModelClass kPlamoClasses[] = {
    {.names = "Plamo2ForCausalLM PLaMo2ForCausalLM",
     .architecture = "plamo2",
     .rules = kPlamo2Rules,
     .keys = kPlamo2Keys,
     .shared_rules = kPlamoRules,
     .finish = add_plamo2_heads},
    {.names = "Plamo3ForCausalLM PLaMo3ForCausalLM",
     .architecture = "plamo3",
     .rules = kPlamo3Rules,
     .keys = kPlamo3Keys,
     .shared_rules = kPlamoRules,
     .finish = check_plamo3},
};

}  // namespace

std::span<const ModelClass> plamo_classes() { return kPlamoClasses; }

}  // namespace tessera::convert
