// Llama Nemotron and DeciLM: like Llama, with other heads and widths in each layer, and layers that lack parts.
#include <nlohmann/json.hpp>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/pieces.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

// Heads have one size in all layers, so the rows tell their number.
Result<TensorPieces> heads_in_pairs(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const int64_t size, head_size_of(*facts.config));
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  if (size < 1 || n_rows % size != 0)
    return fail(ErrorCode::mismatch, "{}: {} rows, want heads of {}", tensor.name, n_rows, size);
  TESSERA_ASSIGN(StoredTensor view, rope_pairs_together(tensor, n_rows / size));
  return TensorPieces{{std::move(view)}, tensor.shape};
}

constexpr TensorRule kDeciRules[] = {
    {"model.layers.{i}.self_attn.q_proj.{}", "blk.{i}.attn_q.{}", Change::same, heads_in_pairs},
    {"model.layers.{i}.self_attn.k_proj.{}", "blk.{i}.attn_k.{}", Change::same, heads_in_pairs},
    {"model.layers.{i}.self_attn.linear_attn.weight", "blk.{i}.attn_output.weight"},
};

constexpr KeyRow kDeciKeys[] = {
    {"attention.head_count_kv", "num_key_value_heads =heads"},
    {"attention.key_length", "=head_size", KeyType::u32, kRequired},
    {"attention.value_length", "=head_size", KeyType::u32, kRequired},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
};

/// The sizes of a layer. One with heads but no KV heads has a matrix in place of attention.
struct DeciLayer {
  int64_t n_heads = 0, n_heads_kv = 0, n_ff = 0;
};

Result<DeciLayer> deci_layer(const HubConfig& block, int64_t n_heads, int64_t n_embd) {
  constexpr int64_t kMultiple = 256;
  DeciLayer layer;
  TESSERA_ASSIGN(const auto n_in_group, block.integer({"attention.n_heads_in_group"}, 1, n_heads));
  TESSERA_ASSIGN(const auto is_linear, block.flag({"attention.replace_with_linear"}));
  TESSERA_ASSIGN(const auto is_linear_ffn, block.flag({"ffn.replace_with_linear"}));
  TESSERA_ASSIGN(const auto share, block.number({"ffn.ffn_mult"}));
  if (is_linear_ffn.value_or(false))
    return fail(ErrorCode::unsupported, "{}: ffn.replace_with_linear is true, want false", block.path());
  if (n_in_group || is_linear.value_or(false)) layer.n_heads = n_heads;
  if (n_in_group) layer.n_heads_kv = n_heads / *n_in_group;
  const double width = 2 * share.value_or(0) * static_cast<double>(n_embd) / 3;
  if (!(width >= 0 && width < 1e9))
    return fail(ErrorCode::limit, "{}: ffn.ffn_mult is {}, for an embedding of {}", block.path(), *share, n_embd);
  layer.n_ff = (static_cast<int64_t>(width) + kMultiple - 1) / kMultiple * kMultiple;
  return layer;
}

Result<> finish_deci(ModelDraft& draft) {
  const HubConfig& config = draft.config;
  const Json* const blocks = config.find({"block_configs"});
  if (blocks == nullptr) {
    TESSERA_ASSIGN(const auto counts, config.integers({"num_key_value_heads_per_layer"}, 1, INT32_MAX));
    if (counts)
      draft.builder.set_array(draft.key("attention.head_count_kv"),
                              std::vector<int32_t>(counts->begin(), counts->end()));
    return {};
  }
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(config));
  TESSERA_ASSIGN(const int64_t n_heads, heads_of(config));
  TESSERA_ASSIGN(const int64_t n_embd, embedding_of(config));
  if (!blocks->is_array() || std::ssize(*blocks) != n_layers || n_heads < 1)
    return fail(ErrorCode::format, "{}: block_configs: want a list of one for each of {} layers, and heads",
                config.path(), n_layers);
  std::vector<int32_t> heads, heads_kv, widths;
  for (size_t i = 0; i < blocks->size(); ++i) {
    TESSERA_ASSIGN(const HubConfig block,
                   config.member((*blocks)[i], config.path() + ": block_configs " + std::to_string(i)));
    TESSERA_ASSIGN(const DeciLayer layer, deci_layer(block, n_heads, n_embd));
    heads.push_back(static_cast<int32_t>(layer.n_heads));
    heads_kv.push_back(static_cast<int32_t>(layer.n_heads_kv));
    widths.push_back(static_cast<int32_t>(layer.n_ff));
  }
  draft.builder.set_array(draft.key("attention.head_count"), heads);
  draft.builder.set_array(draft.key("attention.head_count_kv"), heads_kv);
  draft.builder.set_array(draft.key("feed_forward_length"), widths);
  return {};
}

constexpr ModelClass kDeciClasses[] = {
    {.names = "DeciLMForCausalLM",
     .architecture = "deci",
     .rules = kDeciRules,
     .keys = kDeciKeys,
     .finish = finish_deci},
};

}  // namespace

std::span<const ModelClass> deci_classes() { return kDeciClasses; }

}  // namespace tessera::convert
