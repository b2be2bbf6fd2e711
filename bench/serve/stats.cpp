// Statistics of a load test (stats.h).
#include "bench/serve/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tessera::load {
namespace {
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
}  // namespace

void Samples::append(const Samples& other) {
  values_.insert(values_.end(), other.values_.begin(), other.values_.end());
  sorted_ = false;
}

double Samples::percentile(double p) const {
  if (values_.empty()) return kNone;
  if (!sorted_) std::sort(values_.begin(), values_.end());
  sorted_ = true;
  const double rank = std::ceil(p / 100 * static_cast<double>(values_.size()));
  const auto index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return values_[std::min(index, values_.size() - 1)];
}

double Samples::mean() const {
  if (values_.empty()) return kNone;
  return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return kNone;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double jain_index(std::span<const double> shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : kNone;
}

double slope(std::span<const Point> points) {
  double x_mean = 0, y_mean = 0;
  for (const Point& point : points) {
    x_mean += point.x / static_cast<double>(points.size());
    y_mean += point.y / static_cast<double>(points.size());
  }
  double xy = 0, xx = 0;
  for (const Point& point : points) {
    xy += (point.x - x_mean) * (point.y - y_mean);
    xx += (point.x - x_mean) * (point.x - x_mean);
  }
  return xx > 0 ? xy / xx : kNone;
}

}  // namespace tessera::load
