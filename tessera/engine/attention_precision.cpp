#include "tessera/engine/attention_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/quant/formats.h"

namespace tessera {

namespace {

constexpr float kUnknown = std::numeric_limits<float>::infinity();
// Columns of a row that are read: whole blocks of every format. The deviation of a row's estimate is about 4 %.
constexpr int64_t kSampledColumns = 256;

/// The first n values of a row of a tensor; empty if there is no such tensor, or its type has no decoder.
std::vector<float> first_values(const ModelFiles& files, const ModelFiles::Tensor* tensor, int64_t row, int64_t n) {
  if (tensor == nullptr) return {};
  const DTypeInfo& type = info(tensor->info.dtype);
  const quant::Format* const format = quant::find_format(tensor->info.dtype);
  const Shape& shape = tensor->info.shape;
  if (format == nullptr || shape[0] < n || row >= shape[1] || n % type.block_elements != 0) return {};
  const int64_t row_bytes = shape[0] / type.block_elements * type.block_bytes;
  std::vector<float> values(to_size(n));
  format->dequantize_row(files.data(*tensor).data() + row * row_bytes, n, values.data());
  return values;
}

/// The weights of K in a block of the model: rows of one matrix, with a bias for each row.
struct KeyRows {
  const ModelFiles::Tensor* weight = nullptr;
  int64_t first = 0;
  std::vector<float> bias;  // of the whole matrix; empty: none
};

KeyRows find_key_rows(const ModelFiles& files, const std::string& block, const KvLayerShape& layer) {
  const int64_t n_rows = layer.n_heads_kv * layer.k_dim;
  const auto bias_of = [&](const std::string& name, int64_t n) {
    return first_values(files, files.find_tensor(block + name), 0, n);
  };
  if (const auto* weight = files.find_tensor(block + "attn_k.weight"))
    return {weight->info.shape[1] == n_rows ? weight : nullptr, 0, bias_of("attn_k.bias", n_rows)};
  const auto* weight = files.find_tensor(block + "attn_qkv.weight");
  if (weight == nullptr) return {};
  const int64_t all = weight->info.shape[1], first = all - layer.n_heads_kv * (layer.k_dim + layer.v_dim);
  return {first > 0 ? weight : nullptr, first, bias_of("attn_qkv.bias", all)};
}

/// The largest of some magnitudes in medians; 1 if all are 0.
float spread_of(std::vector<float> magnitudes) {
  const float largest = std::ranges::max(magnitudes);
  const auto middle = magnitudes.begin() + static_cast<std::ptrdiff_t>(magnitudes.size() / 2);
  std::ranges::nth_element(magnitudes, middle);
  return largest == 0 ? 1.0f : largest / *middle;
}

float spread_of_layer(const ModelFiles& files, int64_t il, const KvLayerShape& layer) {
  const std::string block = fmt::format("blk.{}.", il);
  const KeyRows rows = find_key_rows(files, block, layer);
  if (rows.weight == nullptr || !info(rows.weight->info.dtype).is_blocked()) return kUnknown;
  const int64_t n_columns = rows.weight->info.shape[0], n = std::min(n_columns, kSampledColumns);
  const std::vector<float> input = first_values(files, files.find_tensor(block + "attn_norm.weight"), 0, n);
  const auto* const norm = files.find_tensor(block + "attn_k_norm.weight");
  const int64_t n_norm = norm == nullptr ? 0 : norm->info.shape[0];
  const std::vector<float> output = first_values(files, norm, 0, n_norm);

  float most = 1.0f;
  for (int64_t head = 0; head < layer.n_heads_kv; ++head) {
    std::vector<float> magnitudes;
    for (int64_t c = head * layer.k_dim; c < (head + 1) * layer.k_dim; ++c) {
      const std::vector<float> weights = first_values(files, rows.weight, rows.first + c, n);
      if (weights.empty()) return kUnknown;
      float squares = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        const float w = weights[i] * (input.empty() ? 1.0f : input[i]);
        squares += w * w;
      }
      // For an input of mean square 1.
      float magnitude = std::sqrt(squares * static_cast<float>(n_columns) / static_cast<float>(n));
      if (!rows.bias.empty()) magnitude += std::fabs(rows.bias[to_size(rows.first + c)]);
      if (!output.empty()) magnitude *= std::fabs(output[to_size(c % n_norm)]);
      magnitudes.push_back(magnitude);
    }
    most = std::max(most, spread_of(std::move(magnitudes)));
  }
  return most;
}

}  // namespace

float key_spread(const ModelInfo& model, const ModelFiles& files) {
  float most = 1.0f;
  for (size_t i = 0; i < model.kv_layers.size(); ++i) {
    most = std::max(most, spread_of_layer(files, model.kv_blocks[i], model.kv_layers[i]));
    if (!(most <= kMostKeySpread)) break;
  }
  return most;
}

AttentionPrecision attention_precision(const ModelInfo& model, const ModelFiles& files, const SessionOptions& options) {
  if (options.attention != AttentionPrecision::automatic) return options.attention;
  const bool has_float_activations = options.activations == ActivationPrecision::float32;
  return !has_float_activations && key_spread(model, files) <= kMostKeySpread ? AttentionPrecision::int16
                                                                              : AttentionPrecision::float32;
}

}  // namespace tessera
