// Statistics of a load test. Percentiles are exact: every sample is stored. A float per sample keeps the tokens of a
// long run within memory, and its 24 bits resolve a microsecond within 16 s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera::load {

/// A set of samples of one quantity.
class Samples {
 public:
  void add(double value) {
    values_.push_back(static_cast<float>(value));
    sorted_ = false;
  }
  void append(const Samples& other);
  void clear() { values_.clear(); }

  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }

  /// Returns the nearest-rank percentile: the least sample that at least p percent of the samples do not exceed.
  ///   p in [0, 100]; NaN without samples
  double percentile(double p) const;
  double max() const { return percentile(100); }
  /// Returns the mean, or NaN without samples.
  double mean() const;

 private:
  mutable std::vector<float> values_;  // sorted when a percentile is first asked for
  mutable bool sorted_ = false;
};

/// Returns the median; of an even number, the mean of the middle two. NaN without values.
double median(std::vector<double> values);

/// Returns Jain's index of fairness (Jain et al. 1984): (sum x)^2 / (n sum x^2). It is 1 when all shares are equal and
/// 1 / n when one client has everything. NaN without shares, or when all are 0.
double jain_index(std::span<const double> shares);

struct Point {
  double x, y;
};

/// Returns the slope of the least-squares line. NaN with less than two distinct x.
double slope(std::span<const Point> points);

}  // namespace tessera::load
