// Llama 4, of which only the text part is converted. Matrices of experts are transposed, and gate and up are one.
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/pieces.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

// Half of the columns of each expert's matrix, transposed.
Result<TensorPieces> half_of_columns(const StoredTensor& tensor, bool is_second) {
  if (tensor.shape.size() != 3 || tensor.shape[2] % 2 != 0)
    return fail(ErrorCode::mismatch, "{}: want a matrix of gate and up for each expert", tensor.name);
  const int64_t n = tensor.shape[2] / 2;
  TESSERA_ASSIGN(const StoredTensor half, part_of(tensor, 2, is_second ? n : 0, n));
  constexpr size_t kOrder[] = {0, 2, 1};
  TESSERA_ASSIGN(StoredTensor view, with_order(half, kOrder));
  return one_view(std::move(view));
}

Result<TensorPieces> gate_columns(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  return half_of_columns(tensor, false);
}
Result<TensorPieces> up_columns(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  return half_of_columns(tensor, true);
}

constexpr TensorRule kLlama4Rules[] = {
    {"model.layers.{i}.feed_forward.gate_proj.weight", "blk.{i}.ffn_gate.weight"},
    {"model.layers.{i}.feed_forward.up_proj.weight", "blk.{i}.ffn_up.weight"},
    {"model.layers.{i}.feed_forward.down_proj.weight", "blk.{i}.ffn_down.weight"},
    {"model.layers.{i}.feed_forward.router.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.feed_forward.experts.gate_up_proj", "blk.{i}.ffn_gate_exps.weight", Change::same, gate_columns},
    {"model.layers.{i}.feed_forward.experts.gate_up_proj", "blk.{i}.ffn_up_exps.weight", Change::same, up_columns},
    {"model.layers.{i}.feed_forward.experts.down_proj", "blk.{i}.ffn_down_exps.weight", Change::transpose},
    {"model.layers.{i}.feed_forward.shared_expert.gate_proj.weight", "blk.{i}.ffn_gate_shexp.weight"},
    {"model.layers.{i}.feed_forward.shared_expert.up_proj.weight", "blk.{i}.ffn_up_shexp.weight"},
    {"model.layers.{i}.feed_forward.shared_expert.down_proj.weight", "blk.{i}.ffn_down_shexp.weight"},
};

constexpr KeyRow kLlama4Keys[] = {
    {"feed_forward_length", "intermediate_size_mlp", KeyType::u32, kRequired},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(500000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
    {"expert_count", "*", KeyType::u32, otherwise(16)},
    {"expert_used_count", "*", KeyType::u32, otherwise(1)},
    {"expert_feed_forward_length", "intermediate_size", KeyType::u32, kRequired},
    {"interleave_moe_layer_step", "interleave_moe_layer_step", KeyType::u32, otherwise(1)},
};

Result<> check_flag(const HubConfig& config, std::string_view name, bool want) {
  TESSERA_ASSIGN(const auto flag, config.flag({name}));
  if (flag.value_or(want) == want) return {};
  return fail(ErrorCode::unsupported, "{}: {} is {}, want {}", config.path(), name, !want, want);
}

// The runtime has this form without keys: chunks of 8192 tokens and rope in three of four layers; the q of the fourth
// grow with the position; norms of q and k unless there are 128 experts.
Result<> check_llama4(ModelDraft& draft) {
  constexpr int64_t kChunk = 8192, kPeriod = 4, kExpertsWithoutNorms = 128;
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const auto chunk, config.integer({"attention_chunk_size"}, 0, INT32_MAX));
  TESSERA_ASSIGN(const auto floor, config.number({"floor_scale"}));
  TESSERA_ASSIGN(const auto scale, config.number({"attn_scale"}));
  if (chunk.value_or(kChunk) != kChunk || floor.value_or(kChunk) != kChunk || scale.value_or(0.1) != 0.1)
    return fail(ErrorCode::unsupported,
                "{}: want an attention_chunk_size and a floor_scale of 8192, and an attn_scale of 0.1", config.path());
  TESSERA_ASSIGN(const auto ropes, config.integers({"no_rope_layers"}, 0, 1));
  const std::vector<int64_t> flags = ropes.value_or(std::vector<int64_t>{});
  for (size_t i = 0; i < flags.size(); ++i)
    if (flags[i] != ((static_cast<int64_t>(i) + 1) % kPeriod != 0 ? 1 : 0))
      return fail(ErrorCode::unsupported, "{}: no_rope_layers of layer {} is {}, want 0 in every fourth layer only",
                  config.path(), i, flags[i]);
  TESSERA_ASSIGN(const auto n_experts, config.integer({"num_local_experts"}, 0, INT32_MAX));
  return check_flag(config, "use_qk_norm", n_experts.value_or(16) != kExpertsWithoutNorms);
}

constexpr ModelClass kLlama4Classes[] = {
    {.names = "Llama4ForConditionalGeneration Llama4ForCausalLM",
     .architecture = "llama4",
     .rules = kLlama4Rules,
     .keys = kLlama4Keys,
     .finish = check_llama4},
};

}  // namespace

std::span<const ModelClass> llama4_classes() { return kLlama4Classes; }

}  // namespace tessera::convert
