// Times between tokens of a request, by size, for the access log.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tessera::server {

class TokenGaps {
 public:
  void add(double ms) {
    const double step = ms > kFirst ? std::ceil(std::log(ms / kFirst) / std::log(kFactor)) : 0;
    ++counts_[std::min(static_cast<size_t>(step), counts_.size() - 1)];
    ++n_;
  }

  /// A bound that 99 of 100 gaps keep, 10 % too large at most; below 0 without gaps.
  double p99_ms() const {
    if (n_ == 0) return -1;
    uint64_t n_beyond = n_ / 100;  // gaps that may be larger
    size_t i = counts_.size() - 1;
    while (i > 0 && counts_[i] <= n_beyond) n_beyond -= counts_[i--];
    return kFirst * std::pow(kFactor, static_cast<double>(i));
  }

 private:
  static constexpr double kFirst = 0.05, kFactor = 1.1;
  std::array<uint32_t, 160> counts_{};  // up to 3 minutes
  uint64_t n_ = 0;
};

}  // namespace tessera::server
