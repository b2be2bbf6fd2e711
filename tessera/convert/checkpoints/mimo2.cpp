// MiMo 2: other KV heads in layers with a window, sinks, and layers that predict further tokens under model.mtp.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

/// A part of a layer that predicts further tokens.
constexpr TensorRule mimo2_later(std::string_view hub, std::string_view gguf) {
  return {.hub = hub, .gguf = gguf, .is_after_layers = true};
}

constexpr TensorRule kMimo2Rules[] = {
    {"model.layers.{i}.self_attn.qkv_proj.weight", "blk.{i}.attn_qkv.weight"},
    {"model.layers.{i}.self_attn.attention_sink_bias", "blk.{i}.attn_sinks.weight"},
    mimo2_later("model.mtp.layers.{i}.eh_proj.weight", "blk.{i}.nextn.eh_proj.weight"),
    mimo2_later("model.mtp.layers.{i}.enorm.weight", "blk.{i}.nextn.enorm.weight"),
    mimo2_later("model.mtp.layers.{i}.hnorm.weight", "blk.{i}.nextn.hnorm.weight"),
    mimo2_later("model.mtp.layers.{i}.final_layernorm.weight", "blk.{i}.layer_output_norm.weight"),
    mimo2_later("model.mtp.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight"),
    mimo2_later("model.mtp.layers.{i}.pre_mlp_layernorm.weight", "blk.{i}.ffn_norm.weight"),
    mimo2_later("model.mtp.layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight"),
    mimo2_later("model.mtp.layers.{i}.self_attn.qkv_proj.weight", "blk.{i}.attn_qkv.weight"),
    mimo2_later("model.mtp.layers.{i}.self_attn.q_proj.weight", "blk.{i}.attn_q.weight"),
    mimo2_later("model.mtp.layers.{i}.self_attn.k_proj.weight", "blk.{i}.attn_k.weight"),
    mimo2_later("model.mtp.layers.{i}.self_attn.v_proj.weight", "blk.{i}.attn_v.weight"),
    mimo2_later("model.mtp.layers.{i}.self_attn.o_proj.weight", "blk.{i}.attn_output.weight"),
    mimo2_later("model.mtp.layers.{i}.self_attn.attention_sink_bias", "blk.{i}.attn_sinks.weight"),
    mimo2_later("model.mtp.layers.{i}.mlp.gate_proj.weight", "blk.{i}.ffn_gate.weight"),
    mimo2_later("model.mtp.layers.{i}.mlp.up_proj.weight", "blk.{i}.ffn_up.weight"),
    mimo2_later("model.mtp.layers.{i}.mlp.down_proj.weight", "blk.{i}.ffn_down.weight"),
};

constexpr KeyRow kMimo2Keys[] = {
    {"attention.head_count_kv", ""},
    {"attention.key_length", "head_dim", KeyType::u32, kRequired},
    {"attention.value_length", "v_head_dim", KeyType::u32, kRequired},
    {"attention.sliding_window", "sliding_window", KeyType::u32, kRequired},
    {"attention.value_scale", "attention_value_scale", KeyType::f32},
    {"attention.layer_norm_rms_epsilon", "layernorm_epsilon", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated", KeyType::u32, kRequired},
    {"expert_feed_forward_length", "moe_intermediate_size"},
};

// Values that the architecture fixes.
Result<> check_mimo2(const HubConfig& config) {
  constexpr std::pair<std::string_view, std::string_view> kEqual[] = {
      {"swa_num_attention_heads", "num_attention_heads"},
      {"swa_head_dim", "head_dim"},
      {"swa_v_head_dim", "v_head_dim"}};
  for (const auto& [with_window, without] : kEqual) {
    TESSERA_ASSIGN(const auto a, config.integer({with_window}, 1, INT32_MAX));
    TESSERA_ASSIGN(const auto b, config.integer({without}, 1, INT32_MAX));
    if (a && a != b)
      return fail(ErrorCode::unsupported, "{}: {} is {}, want {} as {}", config.path(), with_window, *a, b.value_or(0),
                  without);
  }
  const std::pair<std::string_view, Json> fixed[] = {{"topk_method", "noaux_tc"},
                                                     {"scoring_func", "sigmoid"},
                                                     {"norm_topk_prob", true},
                                                     {"routed_scaling_factor", 1.0}};
  for (const auto& [name, want] : fixed)
    if (const Json* const stated = config.find({name}); stated != nullptr && *stated != want)
      return fail(ErrorCode::unsupported, "{}: {} is {}, want {}", config.path(), name, stated->dump(), want.dump());
  return {};
}

// Layers with a window, and those that predict further tokens, which the config does not count.
Result<std::vector<int32_t>> mimo2_windows(const ModelDraft& draft) {
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(config));
  TESSERA_ASSIGN(const auto stated, config.integers({"hybrid_layer_pattern"}, 0, 1));
  if (!stated || std::ssize(*stated) != n_layers)
    return fail(ErrorCode::format, "{}: hybrid_layer_pattern: want {} numbers, one for each layer", config.path(),
                n_layers);
  std::vector<int32_t> windows(stated->begin(), stated->end());
  while (draft.has_tensor("blk." + std::to_string(windows.size()) + ".nextn.eh_proj.weight")) windows.push_back(1);
  return windows;
}

Result<> finish_mimo2(ModelDraft& draft) {
  const HubConfig& config = draft.config;
  TESSERA_TRY(check_mimo2(config));
  TESSERA_ASSIGN(const std::vector<int32_t> windows, mimo2_windows(draft));
  TESSERA_ASSIGN(const int64_t n_kv, config.require_integer({"num_key_value_heads"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const auto n_kv_window, config.integer({"swa_num_key_value_heads"}, 1, INT32_MAX));
  std::vector<int32_t> heads;
  for (const int32_t has_window : windows)
    heads.push_back(static_cast<int32_t>(has_window != 0 ? n_kv_window.value_or(n_kv) : n_kv));
  draft.builder.set_array(draft.key("attention.head_count_kv"), heads);
  draft.builder.set_array(draft.key("attention.sliding_window_pattern"), windows);
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(config));
  const auto n_all = static_cast<uint32_t>(windows.size()), n_later = n_all - static_cast<uint32_t>(n_layers);
  draft.builder.set(draft.key("block_count"), n_all);
  if (n_later > 0) draft.builder.set(draft.key("nextn_predict_layers"), n_later);
  return {};
}

// The parts of several machines have some heads of q, k and v each. In GGUF all of q comes first, then all of k and v.
Result<> join_mimo2_parts(const HubConfig& config, int64_t n_parts, ConvertedTensor& tensor) {
  TESSERA_ASSIGN(const int64_t n_heads, heads_of(config));
  TESSERA_ASSIGN(const int64_t k_size, head_size_of(config));
  TESSERA_ASSIGN(const int64_t v_size, config.require_integer({"v_head_dim"}, 1, INT32_MAX));
  const ConvertedTensor::Part fused = tensor.parts[0];
  const int64_t n_columns = tensor.shape.back(), n_rows = fused.view.n_elements() / std::max<int64_t>(n_columns, 1),
                n_kv = (n_rows - n_heads * k_size) / (k_size + v_size);
  if (n_kv < 1 || n_rows != n_heads * k_size + n_kv * (k_size + v_size) || n_heads % n_parts != 0 ||
      n_kv % n_parts != 0)
    return fail(ErrorCode::mismatch, "{}: {} rows are no {} parts with heads of q, k and v", fused.view.name, n_rows,
                n_parts);
  TESSERA_ASSIGN(const StoredTensor parts, reshaped(fused.view, {n_parts, n_rows / n_parts, n_columns}));
  tensor.shape = {n_rows, n_columns};
  tensor.parts.clear();
  int64_t first = 0;
  for (const int64_t n : {n_heads * k_size / n_parts, n_kv * k_size / n_parts, n_kv * v_size / n_parts}) {
    TESSERA_ASSIGN(StoredTensor view, part_of(parts, 1, first, n));
    tensor.parts.push_back({.file = fused.file, .view = std::move(view)});
    first += n;
  }
  return {};
}

// Matrices whose scales show the parts have an extent for them. Where the rows of a part fill whole blocks of scales,
// the scales show nothing, and the parts are as many as those of other layers.
Result<> join_mimo2_qkv(const HubConfig& config, std::vector<ConvertedTensor>& tensors) {
  constexpr std::string_view kFused = ".attn_qkv.weight";
  int64_t n_shown = 1;
  for (const ConvertedTensor& tensor : tensors)
    if (tensor.name.ends_with(kFused) && tensor.shape.size() == 3) n_shown = tensor.shape[0];
  for (ConvertedTensor& tensor : tensors) {
    if (!tensor.name.ends_with(kFused)) continue;
    const int64_t n_parts = tensor.shape.size() == 3 ? tensor.shape[0] : n_shown;
    if (n_parts > 1) TESSERA_TRY(join_mimo2_parts(config, n_parts, tensor));
  }
  return {};
}

constexpr ModelClass kMimo2Classes[] = {
    {.names = "MiMoV2FlashForCausalLM MiMoV2ForCausalLM",
     .architecture = "mimo2",
     .rules = kMimo2Rules,
     .keys = kMimo2Keys,
     .rename = join_mimo2_qkv,
     .finish = finish_mimo2},
};

}  // namespace

std::span<const ModelClass> mimo2_classes() { return kMimo2Classes; }

}  // namespace tessera::convert
