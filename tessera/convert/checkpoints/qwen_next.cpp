// Qwen3-Next and Qwen 3.5: linear attention in most layers, and layers that predict further tokens.
#include <algorithm>
#include <utility>

#include "tessera/convert/checkpoints/mamba_pieces.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

/// The heads of linear attention.
struct LinearHeads {
  int64_t n_key = 0, n_value = 0, key_size = 0, value_size = 0;

  int64_t in_group() const { return n_value / n_key; }  // value heads per key head
  int64_t key_rows() const { return n_key * key_size; }
  int64_t value_rows() const { return n_value * value_size; }
};

Result<LinearHeads> linear_heads_of(const RuleFacts& facts) {
  constexpr int64_t kMost = 1 << 20;  // so that products of two of them are small
  LinearHeads heads;
  TESSERA_ASSIGN(heads.n_key, facts.config->require_integer({"linear_num_key_heads"}, 1, kMost));
  TESSERA_ASSIGN(heads.n_value, facts.config->require_integer({"linear_num_value_heads"}, 1, kMost));
  TESSERA_ASSIGN(heads.key_size, facts.config->require_integer({"linear_key_head_dim"}, 1, kMost));
  TESSERA_ASSIGN(heads.value_size, facts.config->require_integer({"linear_value_head_dim"}, 1, kMost));
  if (heads.n_value % heads.n_key != 0)
    return fail(ErrorCode::mismatch, "{}: {} value heads for {} key heads, want a multiple", facts.config->path(),
                heads.n_value, heads.n_key);
  return heads;
}

Result<> require_rows(const StoredTensor& tensor, size_t dimension, int64_t n) {
  if (tensor.shape.size() > dimension && tensor.shape[dimension] == n) return {};
  return fail(ErrorCode::mismatch, "{}: {} rows, want {}", tensor.name,
              tensor.shape.size() > dimension ? tensor.shape[dimension] : 0, n);
}

// A dimension of value heads of n values each, which are grouped by key heads: the first of each group, the second of
// each, and so on.
Result<StoredTensor> tiled_heads(const StoredTensor& tensor, size_t dimension, const LinearHeads& heads, int64_t n) {
  TESSERA_TRY(require_rows(tensor, dimension, heads.n_value * n));
  std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.begin() + std::ptrdiff_t(dimension));
  shape.insert(shape.end(), {heads.n_key, heads.in_group(), n});
  shape.insert(shape.end(), tensor.shape.begin() + std::ptrdiff_t(dimension) + 1, tensor.shape.end());
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::swap(order[dimension], order[dimension + 1]);
  TESSERA_ASSIGN(const StoredTensor apart, reshaped(tensor, std::move(shape)));
  return with_order(apart, order);
}

Result<TensorPieces> tiled_rows(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const LinearHeads heads, linear_heads_of(facts));
  TESSERA_ASSIGN(StoredTensor view, tiled_heads(tensor, 0, heads, heads.value_size));
  return TensorPieces{{std::move(view)}, tensor.shape};
}

Result<TensorPieces> tiled_columns(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const LinearHeads heads, linear_heads_of(facts));
  TESSERA_ASSIGN(StoredTensor view, tiled_heads(tensor, 1, heads, heads.value_size));
  return TensorPieces{{std::move(view)}, tensor.shape};
}

// One row, or one value, per head.
Result<TensorPieces> tiled_each(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const LinearHeads heads, linear_heads_of(facts));
  TESSERA_ASSIGN(StoredTensor view, tiled_heads(tensor, 0, heads, 1));
  return TensorPieces{{std::move(view)}, tensor.shape};
}

// Rows of q and k as they are, and then those of v.
Result<TensorPieces> tiled_after_keys(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const LinearHeads heads, linear_heads_of(facts));
  TESSERA_TRY(require_rows(tensor, 0, 2 * heads.key_rows() + heads.value_rows()));
  TESSERA_ASSIGN(StoredTensor keys, part_of(tensor, 0, 0, 2 * heads.key_rows()));
  TESSERA_ASSIGN(const StoredTensor values, part_of(tensor, 0, 2 * heads.key_rows(), heads.value_rows()));
  TESSERA_ASSIGN(StoredTensor view, tiled_heads(values, 0, heads, heads.value_size));
  return TensorPieces{{std::move(keys), std::move(view)}, tensor.shape};
}

Result<TensorPieces> tiled_convolution(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const TensorPieces matrix, without_middle(tensor, facts));
  return tiled_after_keys(matrix.views[0], facts);
}

// For each key head its q, k, v and z.
Result<StoredTensor> key_heads_of(const StoredTensor& tensor, const LinearHeads& heads) {
  TESSERA_TRY(require_rows(tensor, 0, 2 * (heads.key_rows() + heads.value_rows())));
  std::vector<int64_t> shape = {heads.n_key, 2 * (heads.key_size + heads.in_group() * heads.value_size)};
  shape.insert(shape.end(), tensor.shape.begin() + 1, tensor.shape.end());
  return reshaped(tensor, std::move(shape));
}

Result<TensorPieces> qkv_of_qkvz(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const LinearHeads heads, linear_heads_of(facts));
  TESSERA_ASSIGN(const StoredTensor apart, key_heads_of(tensor, heads));
  const int64_t n_values = heads.in_group() * heads.value_size;
  TESSERA_ASSIGN(StoredTensor q, part_of(apart, 1, 0, heads.key_size));
  TESSERA_ASSIGN(StoredTensor k, part_of(apart, 1, heads.key_size, heads.key_size));
  TESSERA_ASSIGN(StoredTensor v, part_of(apart, 1, 2 * heads.key_size, n_values));
  std::vector<int64_t> shape = tensor.shape;
  shape[0] = 2 * heads.key_rows() + heads.value_rows();
  return TensorPieces{{std::move(q), std::move(k), std::move(v)}, std::move(shape)};
}

Result<TensorPieces> z_of_qkvz(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const LinearHeads heads, linear_heads_of(facts));
  TESSERA_ASSIGN(const StoredTensor apart, key_heads_of(tensor, heads));
  const int64_t n_values = heads.in_group() * heads.value_size;
  TESSERA_ASSIGN(StoredTensor z, part_of(apart, 1, 2 * heads.key_size + n_values, n_values));
  std::vector<int64_t> shape = tensor.shape;
  shape[0] = heads.value_rows();
  return TensorPieces{{std::move(z)}, std::move(shape)};
}

constexpr TensorRule kQwen3NextRules[] = {
    {"model.layers.{i}.linear_attn.A_log", "blk.{i}.ssm_a", Change::minus_exp},
    {"model.layers.{i}.linear_attn.dt_bias", "blk.{i}.ssm_dt.bias"},
    {"model.layers.{i}.linear_attn.conv1d.weight", "blk.{i}.ssm_conv1d.weight", Change::same, without_middle},
    {"model.layers.{i}.linear_attn.in_proj_qkvz.weight", "blk.{i}.attn_qkv.weight", Change::same, qkv_of_qkvz},
    {"model.layers.{i}.linear_attn.in_proj_qkvz.weight", "blk.{i}.attn_gate.weight", Change::same, z_of_qkvz},
    {"model.layers.{i}.linear_attn.in_proj_ba.weight", "blk.{i}.ssm_ba.weight"},
    {"model.layers.{i}.linear_attn.out_proj.weight", "blk.{i}.ssm_out.weight"},
};

constexpr TensorRule kQwen35Rules[] = {
    {"model.layers.{i}.linear_attn.A_log", "blk.{i}.ssm_a", Change::minus_exp, tiled_each},
    {"model.layers.{i}.linear_attn.dt_bias", "blk.{i}.ssm_dt.bias", Change::same, tiled_each},
    {"model.layers.{i}.linear_attn.conv1d.weight", "blk.{i}.ssm_conv1d.weight", Change::same, tiled_convolution},
    {"model.layers.{i}.linear_attn.in_proj_qkv.weight", "blk.{i}.attn_qkv.weight", Change::same, tiled_after_keys},
    {"model.layers.{i}.linear_attn.in_proj_z.weight", "blk.{i}.attn_gate.weight", Change::same, tiled_rows},
    {"model.layers.{i}.linear_attn.in_proj_a.weight", "blk.{i}.ssm_alpha.weight", Change::same, tiled_each},
    {"model.layers.{i}.linear_attn.in_proj_b.weight", "blk.{i}.ssm_beta.weight", Change::same, tiled_each},
    {"model.layers.{i}.linear_attn.out_proj.weight", "blk.{i}.ssm_out.weight", Change::same, tiled_columns},
};

#define TESSERA_MTP(hub, gguf, change) \
  { "mtp.layers.{i}." hub, "blk.{i}." gguf, Change::change, nullptr, true }

// Rows of both families, also for layers that predict further tokens. Norms store the difference from 1.
constexpr TensorRule kQwenNextSharedRules[] = {
    {"model.norm.weight", "output_norm.weight", Change::add_one},
    {"model.layers.{i}.linear_attn.norm.weight", "blk.{i}.ssm_norm.weight"},
    {"model.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight", Change::add_one},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight", Change::add_one},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight", Change::add_one},
    TESSERA_MTP("input_layernorm.weight", "attn_norm.weight", add_one),
    TESSERA_MTP("post_attention_layernorm.weight", "post_attention_norm.weight", add_one),
    TESSERA_MTP("self_attn.q_norm.weight", "attn_q_norm.weight", add_one),
    TESSERA_MTP("self_attn.k_norm.weight", "attn_k_norm.weight", add_one),
    TESSERA_MTP("self_attn.q_proj.weight", "attn_q.weight", same),
    TESSERA_MTP("self_attn.k_proj.weight", "attn_k.weight", same),
    TESSERA_MTP("self_attn.v_proj.weight", "attn_v.weight", same),
    TESSERA_MTP("self_attn.o_proj.weight", "attn_output.weight", same),
    TESSERA_MTP("mlp.gate_proj.weight", "ffn_gate.weight", same),
    TESSERA_MTP("mlp.up_proj.weight", "ffn_up.weight", same),
    TESSERA_MTP("mlp.down_proj.weight", "ffn_down.weight", same),
    TESSERA_MTP("mlp.gate.weight", "ffn_gate_inp.weight", same),
    TESSERA_MTP("mlp.experts.{e}.gate_proj.weight", "ffn_gate_exps.weight", same),
    TESSERA_MTP("mlp.experts.{e}.up_proj.weight", "ffn_up_exps.weight", same),
    TESSERA_MTP("mlp.experts.{e}.down_proj.weight", "ffn_down_exps.weight", same),
    TESSERA_MTP("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", first_half),
    TESSERA_MTP("mlp.experts.gate_up_proj", "ffn_up_exps.weight", second_half),
    TESSERA_MTP("mlp.experts.down_proj", "ffn_down_exps.weight", same),
    TESSERA_MTP("mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight", same),
    TESSERA_MTP("mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight", same),
    TESSERA_MTP("mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight", same),
    TESSERA_MTP("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", same),
    {"mtp.fc.weight", "blk.{i}.nextn.eh_proj.weight", Change::same, nullptr, true},
    {"mtp.pre_fc_norm_embedding.weight", "blk.{i}.nextn.enorm.weight", Change::add_one, nullptr, true},
    {"mtp.pre_fc_norm_hidden.weight", "blk.{i}.nextn.hnorm.weight", Change::add_one, nullptr, true},
    {"mtp.norm.weight", "blk.{i}.nextn.shared_head_norm.weight", Change::add_one, nullptr, true},
};

#undef TESSERA_MTP

constexpr KeyRow kQwenNextKeys[] = {
    {"block_count", "=all_layers"},
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(2)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.key_length", "*", KeyType::u32, otherwise(256)},
    {"attention.value_length", "*", KeyType::u32, otherwise(256)},
    {"rope.dimension_count", "=rotated_quarter"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"ssm.conv_kernel", "linear_conv_kernel_dim", KeyType::u32, kRequired},
    {"ssm.state_size", "linear_key_head_dim", KeyType::u32, kRequired},
    {"ssm.group_count", "linear_num_key_heads", KeyType::u32, kRequired},
    {"ssm.time_step_rank", "linear_num_value_heads", KeyType::u32, kRequired},
    {"ssm.inner_size", "=linear_width", KeyType::u32, kRequired},
    {"full_attention_interval", "full_attention_interval", KeyType::u32, otherwise(4)},
};

// Configs may leave out the layers that predict further tokens, so the tensors count.
Result<> finish_qwen_next(ModelDraft& draft) {
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(draft.config));
  int64_t n_all = n_layers;
  for (const ConvertedTensor& tensor : draft.tensors) {
    const auto places = match_name("blk.{i}.attn_norm.weight", tensor.name);
    if (places) n_all = std::max<int64_t>(n_all, *places->layer + 1);
  }
  draft.builder.set(draft.key("block_count"), static_cast<uint32_t>(n_all));
  if (n_all > n_layers) draft.builder.set(draft.key("nextn_predict_layers"), static_cast<uint32_t>(n_all - n_layers));
  return {};
}

Result<> finish_qwen35(ModelDraft& draft) {
  constexpr int32_t kSections[] = {11, 11, 10, 0};
  if (draft.config.find({"rope_parameters.mrope_section", "rope_scaling.mrope_section"}) == nullptr)
    draft.builder.set_array(draft.key("rope.dimension_sections"), std::span(kSections));
  return finish_qwen_next(draft);
}

constexpr ModelClass kQwenNextClasses[] = {
    {.names = "Qwen3NextForCausalLM",
     .architecture = "qwen3next",
     .rules = kQwen3NextRules,
     .keys = kQwenNextKeys,
     .shared_rules = kQwenNextSharedRules,
     .finish = finish_qwen_next},
    {.names = "Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration",
     .architecture = "qwen35",
     .rules = kQwen35Rules,
     .keys = kQwenNextKeys,
     .shared_rules = kQwenNextSharedRules,
     .finish = finish_qwen35},
    {.names = "Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration",
     .architecture = "qwen35moe",
     .rules = kQwen35Rules,
     .keys = kQwenNextKeys,
     .shared_rules = kQwenNextSharedRules,
     .finish = finish_qwen35},
};

}  // namespace

std::span<const ModelClass> qwen_next_classes() { return kQwenNextClasses; }

}  // namespace tessera::convert
