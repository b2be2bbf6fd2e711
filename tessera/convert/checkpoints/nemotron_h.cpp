// Nemotron H: each layer is a Mamba 2 mixer, attention, or an FFN, which may have experts.
#include <nlohmann/json.hpp>

#include "tessera/convert/checkpoints/mamba_pieces.h"
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kNemotronHRules[] = {
    {"lm_head.weight", "output.weight"},
    {"embeddings.weight", "token_embd.weight"},
    {"norm_f.weight", "output_norm.weight"},
    {"layers.{i}.norm.weight", "blk.{i}.attn_norm.weight"},
    {"layers.{i}.mixer.A_log", "blk.{i}.ssm_a", Change::minus_exp, as_column},
    {"layers.{i}.mixer.D", "blk.{i}.ssm_d", Change::same, as_column},
    {"layers.{i}.mixer.dt_bias", "blk.{i}.ssm_dt.bias"},
    {"layers.{i}.mixer.conv1d.weight", "blk.{i}.ssm_conv1d.weight", Change::same, without_middle},
    {"layers.{i}.mixer.conv1d.bias", "blk.{i}.ssm_conv1d.bias"},
    {"layers.{i}.mixer.in_proj.{}", "blk.{i}.ssm_in.{}"},
    {"layers.{i}.mixer.out_proj.{}", "blk.{i}.ssm_out.{}"},
    {"layers.{i}.mixer.norm.weight", "blk.{i}.ssm_norm.weight", Change::same, in_groups},
    {"layers.{i}.mixer.q_proj.{}", "blk.{i}.attn_q.{}"},
    {"layers.{i}.mixer.k_proj.{}", "blk.{i}.attn_k.{}"},
    {"layers.{i}.mixer.v_proj.{}", "blk.{i}.attn_v.{}"},
    {"layers.{i}.mixer.o_proj.{}", "blk.{i}.attn_output.{}"},
    {"layers.{i}.mixer.up_proj.{}", "blk.{i}.ffn_up.{}"},
    {"layers.{i}.mixer.down_proj.{}", "blk.{i}.ffn_down.{}"},
    {"layers.{i}.mixer.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"layers.{i}.mixer.gate.e_score_correction_bias", "blk.{i}.exp_probs_b.bias"},
    {"layers.{i}.mixer.experts.{e}.up_proj.weight", "blk.{i}.ffn_up_exps.weight"},
    {"layers.{i}.mixer.experts.{e}.down_proj.weight", "blk.{i}.ffn_down_exps.weight"},
    {"layers.{i}.mixer.shared_experts.up_proj.weight", "blk.{i}.ffn_up_shexp.weight"},
    {"layers.{i}.mixer.shared_experts.down_proj.weight", "blk.{i}.ffn_down_shexp.weight"},
    {"layers.{i}.mixer.fc1_latent_proj.weight", "blk.{i}.ffn_latent_down.weight"},
    {"layers.{i}.mixer.fc2_latent_proj.weight", "blk.{i}.ffn_latent_up.weight"},
    {"mtp.*", "", Change::drop},  // layers that predict further tokens
};

constexpr uint32_t kContextWithoutPositions = 1u << 20;  // no limit, as for other models without rope

constexpr KeyRow kNemotronHKeys[] = {
    {"context_length", "", KeyType::u32, otherwise(kContextWithoutPositions)},
    {"attention.layer_norm_epsilon", ""},
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon norm_eps rms_norm_eps", KeyType::f32, otherwise(1e-5)},
    {"attention.key_length", "head_dim attention_head_dim", KeyType::u32, kRequired},
    {"attention.value_length", "head_dim attention_head_dim", KeyType::u32, kRequired},
    {"rope.scaling.finetuned", "", KeyType::boolean, otherwise(0)},
    {"ssm.conv_kernel", "conv_kernel", KeyType::u32, otherwise(4)},
    {"ssm.state_size", "ssm_state_size", KeyType::u32, kRequired},
    {"ssm.group_count", "n_groups", KeyType::u32, kRequired},
    {"ssm.time_step_rank", "mamba_num_heads", KeyType::u32, kRequired},
};

constexpr KeyRow kNemotronHMoeKeys[] = {
    {"expert_count", "n_routed_experts", KeyType::u32, kRequired},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"},
    {"expert_weights_norm", "norm_topk_prob", KeyType::boolean, otherwise(1)},
    {"expert_weights_scale", "routed_scaling_factor", KeyType::f32, otherwise(1)},
    {"moe_latent_size", "moe_latent_size"},
};

enum class NemotronLayer : uint8_t { mamba, attention, ffn };

// The kind of each layer: a letter of a pattern, or a name. Error: format.
Result<std::vector<NemotronLayer>> kinds_of_layers(const HubConfig& config) {
  std::vector<std::string> names;
  const Json* const pattern = config.find({"hybrid_override_pattern"});
  if (pattern != nullptr && pattern->is_string()) {
    for (const char letter : pattern->get_ref<const std::string&>()) names.emplace_back(1, letter);
  } else {
    TESSERA_ASSIGN(const auto types, layer_types_of(config));
    names = types.value_or(std::vector<std::string>{});
  }
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(config));
  if (std::ssize(names) != n_layers)
    return fail(ErrorCode::format, "{}: kinds of {} layers, want {}", config.path(), names.size(), n_layers);
  std::vector<NemotronLayer> kinds;
  for (const std::string& name : names) {
    if (name == "M" || name == "mamba") {
      kinds.push_back(NemotronLayer::mamba);
    } else if (name == "*" || name == "attention") {
      kinds.push_back(NemotronLayer::attention);
    } else if (name == "-" || name == "E" || name == "mlp" || name == "moe") {
      kinds.push_back(NemotronLayer::ffn);
    } else {
      return fail(ErrorCode::format, "{}: hybrid_override_pattern: letters other than M, *, - and E", config.path());
    }
  }
  return kinds;
}

Result<> finish_nemotron_h(ModelDraft& draft) {
  const HubConfig& config = draft.config;
  const bool has_experts = draft.architecture == "nemotron_h_moe";
  TESSERA_ASSIGN(const auto kinds, kinds_of_layers(config));
  TESSERA_ASSIGN(const int64_t n_kv, kv_heads_of(config));
  TESSERA_ASSIGN(const int64_t n_ff,
                 config.require_integer({has_experts ? "moe_intermediate_size" : "intermediate_size"}, 1, INT32_MAX));
  std::vector<int32_t> heads, widths;
  for (const NemotronLayer kind : kinds) {
    heads.push_back(kind == NemotronLayer::attention ? static_cast<int32_t>(n_kv) : 0);
    widths.push_back(kind == NemotronLayer::ffn ? static_cast<int32_t>(n_ff) : 0);
  }
  draft.builder.set_array(draft.key("attention.head_count_kv"), heads);
  draft.builder.set_array(draft.key("feed_forward_length"), widths);
  TESSERA_ASSIGN(const int64_t n_heads, config.require_integer({"mamba_num_heads"}, 1, 1 << 20));
  TESSERA_ASSIGN(const int64_t size, config.require_integer({"mamba_head_dim"}, 1, 1 << 10));
  draft.builder.set(draft.key("ssm.inner_size"), static_cast<uint32_t>(n_heads * size));
  return {};
}

Result<bool> has_nemotron_experts(const HubConfig& config) { return config.find({"num_experts_per_tok"}) != nullptr; }

constexpr ModelClass kNemotronHClasses[] = {
    {.names = "NemotronHForCausalLM",
     .architecture = "nemotron_h_moe",
     .rules = kNemotronHRules,
     .keys = kNemotronHMoeKeys,
     .shared_keys = kNemotronHKeys,
     .is_decoder = false,
     .prefix = "backbone.",
     .scaling = RopeScaling::none,
     .fits = has_nemotron_experts,
     .finish = finish_nemotron_h},
    {.names = "NemotronHForCausalLM",
     .architecture = "nemotron_h",
     .rules = kNemotronHRules,
     .keys = kNemotronHKeys,
     .is_decoder = false,
     .prefix = "backbone.",
     .scaling = RopeScaling::none,
     .finish = finish_nemotron_h},
};

}  // namespace

std::span<const ModelClass> nemotron_h_classes() { return kNemotronHClasses; }

}  // namespace tessera::convert
