#include "tessera/cli/imatrix_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "tessera/cli/console.h"

namespace tessera::cli {

namespace {

constexpr double kActive = 1e-5;

// 7 for "blk.7.attn_q.weight", -1 for others.
int64_t layer_of(std::string_view weight) {
  constexpr std::string_view kBlock = "blk.";
  int64_t layer = -1;
  if (!weight.starts_with(kBlock)) return -1;
  const auto [end, error] = std::from_chars(weight.data() + kBlock.size(), weight.data() + weight.size(), layer);
  return error == std::errc() && end != weight.data() + weight.size() && *end == '.' ? layer : -1;
}

std::vector<double> values_of(const convert::ImatrixEntry& entry) {
  std::vector<double> values;
  for (size_t i = 0; i < entry.n_matrices(); ++i) {
    if (entry.counts[i] <= 0) continue;
    const std::vector<float> means = convert::importance_of(entry, i);
    values.insert(values.end(), means.begin(), means.end());
  }
  return values;
}

ImatrixStatistics statistics_of(const std::string& weight, const convert::ImatrixEntry& entry) {
  ImatrixStatistics s{.weight = weight, .layer = layer_of(weight)};
  const std::vector<double> values = values_of(entry);
  s.n_columns = values.size();
  if (values.empty()) return s;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) s.sum += value;
  s.mean = s.sum / n;
  s.min = std::ranges::min(values);
  s.max = std::ranges::max(values);
  for (const double value : values) {
    s.deviation += (value - s.mean) * (value - s.mean) / n;
    s.active_share += value > kActive ? 1 / n : 0;
    const double share = s.sum > 0 ? value / s.sum : 0;
    if (share > 0) s.entropy -= share * std::log2(share);
  }
  s.deviation = std::sqrt(s.deviation);
  return s;
}

std::string layer_name(int64_t layer) { return layer < 0 ? "-" : std::to_string(layer); }

struct LayerSum {
  size_t n_weights = 0;
  double sum = 0, n_columns = 0, n_active = 0;
};

}  // namespace

std::vector<ImatrixStatistics> statistics_of(const convert::Imatrix& imatrix) {
  std::vector<ImatrixStatistics> all;
  for (const auto& [weight, entry] : imatrix.entries) all.push_back(statistics_of(weight, entry));
  std::ranges::stable_sort(all, [](const ImatrixStatistics& a, const ImatrixStatistics& b) {
    return a.layer != b.layer ? a.layer < b.layer : a.sum > b.sum;
  });
  return all;
}

std::string format_statistics(const convert::Imatrix& imatrix) {
  std::vector<std::vector<std::string>> weights = {
      {"layer", "weight", "sum", "mean", "min", "max", "deviation", "active", "columns", "entropy", "of most"}};
  std::map<int64_t, LayerSum> by_layer;
  for (const ImatrixStatistics& s : statistics_of(imatrix)) {
    const double most = std::log2(static_cast<double>(s.n_columns));
    weights.push_back({layer_name(s.layer), s.weight, fmt::format("{:.4g}", s.sum), fmt::format("{:.4g}", s.mean),
                       fmt::format("{:.4g}", s.min), fmt::format("{:.4g}", s.max), fmt::format("{:.4g}", s.deviation),
                       fmt::format("{:.2f}%", 100 * s.active_share), std::to_string(s.n_columns),
                       fmt::format("{:.4f}", s.entropy),
                       s.n_columns > 1 ? fmt::format("{:.2f}%", 100 * s.entropy / most) : "-"});
    LayerSum& layer = by_layer[s.layer];
    const auto n = static_cast<double>(s.n_columns);
    ++layer.n_weights;
    layer.sum += s.sum;
    layer.n_columns += n;
    layer.n_active += n * s.active_share;
  }
  std::vector<std::vector<std::string>> layers = {{"layer", "weights", "sum", "mean", "active"}};
  for (const auto& [layer, sum] : by_layer) {
    const double n = std::max(sum.n_columns, 1.0);
    layers.push_back({layer_name(layer), std::to_string(sum.n_weights), fmt::format("{:.4g}", sum.sum),
                      fmt::format("{:.4g}", sum.sum / n), fmt::format("{:.2f}%", 100 * sum.n_active / n)});
  }
  return format_table(weights, "rlrrrrrrrrr") + "\n" + format_table(layers, "rrrrr");
}

}  // namespace tessera::cli
