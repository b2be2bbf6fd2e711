#include "tessera/convert/imatrix_statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tessera/convert/mix.h"

namespace tessera::convert {

namespace {

constexpr double kActive = 1e-5;

std::vector<double> values_of(const ImatrixEntry& entry) {
  std::vector<double> values;
  for (size_t i = 0; i < entry.n_matrices(); ++i) {
    if (entry.counts[i] <= 0) continue;
    const std::vector<float> means = importance_of(entry, i);
    values.insert(values.end(), means.begin(), means.end());
  }
  return values;
}

ImatrixStatistics statistics_of(const std::string& weight, const ImatrixEntry& entry) {
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

}  // namespace

std::vector<ImatrixStatistics> statistics_of(const Imatrix& imatrix) {
  std::vector<ImatrixStatistics> all;
  for (const auto& [weight, entry] : imatrix.entries) all.push_back(statistics_of(weight, entry));
  std::ranges::stable_sort(all, [](const ImatrixStatistics& a, const ImatrixStatistics& b) {
    return a.layer != b.layer ? a.layer < b.layer : a.sum > b.sum;
  });
  return all;
}

std::vector<LayerStatistics> layers_of(std::span<const ImatrixStatistics> weights) {
  struct Columns {
    double n = 0, n_active = 0;
  };
  std::map<int64_t, std::pair<LayerStatistics, Columns>> by_layer;
  for (const ImatrixStatistics& s : weights) {
    auto& [layer, columns] = by_layer[s.layer];
    const auto n = static_cast<double>(s.n_columns);
    layer.layer = s.layer;
    ++layer.n_weights;
    layer.sum += s.sum;
    columns.n += n;
    columns.n_active += n * s.active_share;
  }
  std::vector<LayerStatistics> layers;
  for (auto& [number, entry] : by_layer) {
    auto& [layer, columns] = entry;
    layer.mean = layer.sum / std::max(columns.n, 1.0);
    layer.active_share = columns.n_active / std::max(columns.n, 1.0);
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace tessera::convert
