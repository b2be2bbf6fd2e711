// Falcon H1: attention and Mamba 2 in every layer. Constant factors of the config become part of the weights.
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tessera/convert/checkpoints/mamba_pieces.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/pieces.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

// A factor of the config, or number i of a list of factors; 1 if the config has none.
Result<double> multiplier(const HubConfig& config, std::string_view name, size_t i = 0) {
  const Json* value = config.find({name});
  if (value == nullptr) return 1.0;
  if (value->is_array()) value = i < value->size() ? &(*value)[i] : nullptr;
  if (value == nullptr || !value->is_number() || !std::isfinite(value->get<double>()))
    return fail(ErrorCode::format, "{}: {}: want a number, or one for each part", config.path(), name);
  return value->get<double>();
}

Result<TensorPieces> scaled_embeddings(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const double factor, multiplier(*facts.config, "embedding_multiplier"));
  return one_view(tensor, factor);
}
Result<TensorPieces> scaled_head(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const double factor, multiplier(*facts.config, "lm_head_multiplier"));
  return one_view(tensor, factor);
}
Result<TensorPieces> scaled_q_or_v(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const double factor, multiplier(*facts.config, "attention_in_multiplier"));
  return one_view(tensor, factor);
}
Result<TensorPieces> scaled_k(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const double input, multiplier(*facts.config, "attention_in_multiplier"));
  TESSERA_ASSIGN(const double key, multiplier(*facts.config, "key_multiplier"));
  return one_view(tensor, input * key);
}
Result<TensorPieces> scaled_attention(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const double factor, multiplier(*facts.config, "attention_out_multiplier"));
  return one_view(tensor, factor);
}
Result<TensorPieces> scaled_gate(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const double factor, multiplier(*facts.config, "mlp_multipliers", 0));
  return one_view(tensor, factor);
}
Result<TensorPieces> scaled_down(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const double factor, multiplier(*facts.config, "mlp_multipliers", 1));
  return one_view(tensor, factor);
}
Result<TensorPieces> scaled_mixer(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const double factor, multiplier(*facts.config, "ssm_out_multiplier"));
  return one_view(tensor, factor);
}

// Rows of the gate, x, B, C and the steps, each with a factor.
Result<TensorPieces> scaled_mixer_input(const StoredTensor& tensor, const RuleFacts& facts) {
  const HubConfig& config = *facts.config;
  TESSERA_ASSIGN(const int64_t n_inner, config.require_integer({"mamba_d_ssm"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const int64_t n_groups, config.require_integer({"mamba_n_groups"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const int64_t n_state, config.require_integer({"mamba_d_state"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const int64_t n_steps, config.require_integer({"mamba_n_heads"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const double input, multiplier(config, "ssm_in_multiplier"));
  const std::array<int64_t, 5> rows = {n_inner, n_inner, n_groups * n_state, n_groups * n_state, n_steps};
  TensorPieces pieces{.shape = tensor.shape};
  int64_t first = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    TESSERA_ASSIGN(const double factor, multiplier(config, "ssm_multipliers", i));
    TESSERA_ASSIGN(StoredTensor part, part_of(tensor, 0, first, rows[i]));
    pieces.views.push_back(std::move(part));
    pieces.factors.push_back(static_cast<float>(input * factor));
    first += rows[i];
  }
  if (first != tensor.shape[0])
    return fail(ErrorCode::mismatch, "{}: {} rows, want {}", tensor.name, tensor.shape[0], first);
  return pieces;
}

constexpr TensorRule kFalconH1Rules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", Change::same, scaled_embeddings},
    {"model.final_layernorm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight", Change::same, scaled_head},
    {"model.layers.{i}.pre_ff_layernorm.weight", "blk.{i}.ffn_norm"},
    {"model.layers.{i}.self_attn.q_proj.weight", "blk.{i}.attn_q.weight", Change::same, scaled_q_or_v},
    {"model.layers.{i}.self_attn.k_proj.weight", "blk.{i}.attn_k.weight", Change::same, scaled_k},
    {"model.layers.{i}.self_attn.v_proj.weight", "blk.{i}.attn_v.weight", Change::same, scaled_q_or_v},
    {"model.layers.{i}.self_attn.o_proj.weight", "blk.{i}.attn_output.weight", Change::same, scaled_attention},
    {"model.layers.{i}.feed_forward.gate_proj.weight", "blk.{i}.ffn_gate.weight", Change::same, scaled_gate},
    {"model.layers.{i}.feed_forward.up_proj.weight", "blk.{i}.ffn_up.weight"},
    {"model.layers.{i}.feed_forward.down_proj.weight", "blk.{i}.ffn_down.weight", Change::same, scaled_down},
    {"model.layers.{i}.mamba.in_proj.weight", "blk.{i}.ssm_in.weight", Change::same, scaled_mixer_input},
    {"model.layers.{i}.mamba.out_proj.weight", "blk.{i}.ssm_out.weight", Change::same, scaled_mixer},
    {"model.layers.{i}.mamba.A_log", "blk.{i}.ssm_a", Change::minus_exp, as_column},
    {"model.layers.{i}.mamba.D", "blk.{i}.ssm_d", Change::same, as_column},
    {"model.layers.{i}.mamba.dt_bias", "blk.{i}.ssm_dt.bias"},
    {"model.layers.{i}.mamba.conv1d.weight", "blk.{i}.ssm_conv1d.weight", Change::same, without_middle},
    {"model.layers.{i}.mamba.conv1d.bias", "blk.{i}.ssm_conv1d.bias"},
    {"model.layers.{i}.mamba.norm.weight", "blk.{i}.ssm_norm.weight", Change::same, in_groups},
};

constexpr KeyRow kFalconH1Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(1e5)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"attention.key_length", "=head_size"},
    {"attention.value_length", "=head_size"},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"ssm.conv_kernel", "mamba_d_conv", KeyType::u32, otherwise(4)},
    {"ssm.state_size", "mamba_d_state", KeyType::u32, kRequired},
    {"ssm.group_count", "mamba_n_groups", KeyType::u32, kRequired},
    {"ssm.inner_size", "mamba_d_ssm", KeyType::u32, kRequired},
    {"ssm.time_step_rank", "mamba_n_heads", KeyType::u32, kRequired},
};

// A tensor that is embedding and output layer cannot have the factors of both.
Result<> check_falcon_h1(ModelDraft& draft) {
  if (draft.has_tensor("output.weight")) return {};
  TESSERA_ASSIGN(const double embedding, multiplier(draft.config, "embedding_multiplier"));
  TESSERA_ASSIGN(const double head, multiplier(draft.config, "lm_head_multiplier"));
  if (embedding == head) return {};
  return fail(ErrorCode::unsupported, "{}: no lm_head.weight, and its factor is not that of the embeddings",
              draft.config.path());
}

constexpr ModelClass kFalconH1Classes[] = {
    {.names = "FalconH1ForCausalLM",
     .architecture = "falcon-h1",
     .rules = kFalconH1Rules,
     .keys = kFalconH1Keys,
     .finish = check_falcon_h1},
};

}  // namespace

std::span<const ModelClass> falcon_h1_classes() { return kFalconH1Classes; }

}  // namespace tessera::convert
