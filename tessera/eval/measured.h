// Values with their standard errors. Used by perplexity, kl_divergence and choices.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tessera::eval {

/// A value and its standard error.
struct Measured {
  double value = 0, error = 0;
};

/// The mean of numbers that are added one by one. Its standard error uses n - 1 degrees of freedom; it is 0 for one
/// number.
class RunningMean {
 public:
  void add(double x) {
    sum_ += x;
    sum_of_squares_ += x * x;
    ++n_;
  }
  int64_t n() const { return n_; }
  /// The mean of the added numbers; zeros if there are none.
  Measured mean() const {
    if (n_ == 0) return {};
    const auto n = static_cast<double>(n_);
    const double mean = sum_ / n, variance = std::max(sum_of_squares_ / n - mean * mean, 0.0);
    return {mean, n_ > 1 ? std::sqrt(variance / (n - 1)) : 0.0};
  }

 private:
  double sum_ = 0, sum_of_squares_ = 0;
  int64_t n_ = 0;
};

/// The standard error of a share of n items, with n - 1 degrees of freedom; 0 for one item.
inline double share_error(double share, int64_t n) {
  return n > 1 ? std::sqrt(share * (1 - share) / static_cast<double>(n - 1)) : 0.0;
}

}  // namespace tessera::eval
