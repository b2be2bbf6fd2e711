// gpt-oss: sinks of attention, and experts in MXFP4 whose rows of gate and up alternate.
#include <utility>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

// Every second row of each expert, from row `first` on. Values of a bias count as rows.
Result<TensorPieces> every_second(const StoredTensor& tensor, int64_t first) {
  if (tensor.shape.size() < 2 || tensor.shape[1] % 2 != 0)
    return fail(ErrorCode::mismatch, "{}: no rows of gate and up in turns", tensor.name);
  std::vector<int64_t> shape = tensor.shape, pairs = tensor.shape;
  shape[1] /= 2;
  pairs[1] /= 2;
  pairs.insert(pairs.begin() + 2, 2);
  TESSERA_ASSIGN(const StoredTensor apart, reshaped(tensor, std::move(pairs)));
  TESSERA_ASSIGN(StoredTensor view, part_of(apart, 2, first, 1));
  return TensorPieces{{std::move(view)}, std::move(shape)};
}

Result<TensorPieces> even_rows(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  return every_second(tensor, 0);
}
Result<TensorPieces> odd_rows(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  return every_second(tensor, 1);
}

// Experts that are not quantized have their matrices transposed.
Result<StoredTensor> transposed_experts(const StoredTensor& tensor) {
  constexpr size_t kOrder[] = {0, 2, 1};
  return with_order(tensor, kOrder);
}
Result<TensorPieces> even_columns(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  TESSERA_ASSIGN(const StoredTensor experts, transposed_experts(tensor));
  return every_second(experts, 0);
}
Result<TensorPieces> odd_columns(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  TESSERA_ASSIGN(const StoredTensor experts, transposed_experts(tensor));
  return every_second(experts, 1);
}

constexpr TensorRule kGptOssRules[] = {
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.self_attn.sinks", "blk.{i}.attn_sinks.weight"},
    {"model.layers.{i}.mlp.router.{}", "blk.{i}.ffn_gate_inp.{}"},
    {"model.layers.{i}.mlp.experts.gate_up_proj.weight", "blk.{i}.ffn_gate_exps.weight", Change::same, even_rows},
    {"model.layers.{i}.mlp.experts.gate_up_proj.weight", "blk.{i}.ffn_up_exps.weight", Change::same, odd_rows},
    {"model.layers.{i}.mlp.experts.gate_up_proj_bias", "blk.{i}.ffn_gate_exps.bias", Change::same, even_rows},
    {"model.layers.{i}.mlp.experts.gate_up_proj_bias", "blk.{i}.ffn_up_exps.bias", Change::same, odd_rows},
    {"model.layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_gate_exps.weight", Change::same, even_columns},
    {"model.layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_up_exps.weight", Change::same, odd_columns},
    {"model.layers.{i}.mlp.experts.down_proj.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.mlp.experts.down_proj_bias", "blk.{i}.ffn_down_exps.bias"},
    {"model.layers.{i}.mlp.experts.down_proj", "blk.{i}.ffn_down_exps.weight", Change::transpose},
};

constexpr KeyRow kGptOssKeys[] = {
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(8)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(150000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"attention.key_length", "*", KeyType::u32, otherwise(64)},
    {"attention.value_length", "*", KeyType::u32, otherwise(64)},
    {"attention.sliding_window", "sliding_window", KeyType::u32, otherwise(128)},
    {"expert_feed_forward_length", "intermediate_size"},
};

constexpr ModelClass kGptOssClasses[] = {
    {.names = "GptOssForCausalLM", .architecture = "gpt-oss", .rules = kGptOssRules, .keys = kGptOssKeys},
};

}  // namespace

std::span<const ModelClass> gpt_oss_classes() { return kGptOssClasses; }

}  // namespace tessera::convert
