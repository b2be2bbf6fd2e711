#include "tessera/engine/speculative/step_times.h"

#include <algorithm>
#include <bit>

#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr double kShare = 0.2;         // of a new measurement in an estimate
constexpr double kMostOutlier = 2;     // times the estimate
constexpr double kFirstSlope = 0.05;   // a guess
constexpr double kMostSlope = 1;       // a further token costs at most as much as the first
constexpr double kForgetting = 0.998;  // of slopes, per step that could have been wider

}  // namespace

size_t StepTimes::class_of(int64_t n_tokens) {
  return std::min<size_t>(std::bit_width(static_cast<uint64_t>(n_tokens)) - 2, kClasses - 1);
}

// A class without a measurement has the slope of the nearest narrower class, or else of the nearest wider one.
double StepTimes::slope(int64_t n_tokens) const {
  const size_t wanted = class_of(n_tokens);
  for (size_t i = wanted + 1; i-- > 0;)
    if (slopes_[i]) return *slopes_[i];
  for (size_t i = wanted + 1; i < kClasses; ++i)
    if (slopes_[i]) return *slopes_[i];
  return kFirstSlope;
}

double StepTimes::ms(int64_t n_tokens) const {
  return n_tokens < 2 ? first_ms_ : first_ms_ * (1 + slope(n_tokens) * static_cast<double>(n_tokens - 1));
}

void StepTimes::learn(int64_t n_tokens, double ms) {
  const double known = this->ms(n_tokens);
  if (known > 0) ms = std::min(ms, kMostOutlier * known);
  if (n_tokens < 2 || first_ms_ == 0) {
    const double first = ms / (1 + (n_tokens < 2 ? 0 : slope(n_tokens) * static_cast<double>(n_tokens - 1)));
    first_ms_ = first_ms_ == 0 ? first : first_ms_ + kShare * (first - first_ms_);
    return;
  }
  const double sample = std::clamp((ms / first_ms_ - 1) / static_cast<double>(n_tokens - 1), 0.0, kMostSlope);
  std::optional<double>& slope = slopes_[class_of(n_tokens)];
  slope = slope ? *slope + kShare * (sample - *slope) : sample;
}

void StepTimes::note_narrow_step() {
  for (std::optional<double>& slope : slopes_)
    if (slope) *slope *= kForgetting;
}

}  // namespace tessera
