// The search of the formats with large blocks of values 0 and +-d. A vector holds 16 adjacent elements of one block.
// The sums of a block have sixteen lanes, each in index order, which are added in the order of the lanes.
#pragma once

#include "tessera/quant/formats/groups.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

/// Magnitudes of one block of N elements, their weights, and the products of the two.
template <int N>
struct Magnitudes {
  static constexpr int kVectors = N / kLanes;

  F32x16 x[kVectors], w[kVectors], wx[kVectors];

  /// weights: null: all are 1.
  Magnitudes(const float* from, const float* weights) {
    for (int i = 0; i < kVectors; ++i) {
      x[i] = abs(load(from + i * kLanes));
      w[i] = weights == nullptr ? broadcast(1.0f) : load(weights + i * kLanes);
      wx[i] = w[i] * x[i];
    }
  }
};

[[gnu::always_inline]] inline float sum_of_lanes(F32x16 v) {
  float sum = 0.0f;
  for (int i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

/// The best d if values above a threshold become +-d and values below it 0, and the reduction of the error.
struct ThresholdFit {
  float d, gain;
};
template <int N>
[[gnu::always_inline]] inline ThresholdFit fit_above(const Magnitudes<N>& values, float threshold) {
  F32x16 sum_wx = {}, sum_w = {};
  for (int i = 0; i < Magnitudes<N>::kVectors; ++i) {
    const I32x16 above = values.x[i] > threshold;
    sum_wx += from_bits(above & bits_of(values.wx[i]));
    sum_w += from_bits(above & bits_of(values.w[i]));
  }
  const float a = sum_of_lanes(sum_wx), d = a / sum_of_lanes(sum_w);
  return {d, a * d};
}

/// Returns d >= 0 as f16; values above d / 2 become +-d. The search maximizes the gain over the number of values that
/// become +-d: thresholds in even steps find the neighbourhood, then half of the fitted d is the next threshold.
template <int N>
inline float search_ternary_scale(const Magnitudes<N>& values) {
  constexpr int kSteps = 16, kRefits = 4;
  F32x16 lanes = {};
  for (int i = 0; i < Magnitudes<N>::kVectors; ++i) lanes = max(values.x[i], lanes);
  float largest = 0.0f;
  for (int i = 0; i < kLanes; ++i) largest = lanes[i] > largest ? lanes[i] : largest;

  ThresholdFit best = {0.0f, 0.0f};
  const auto consider = [&](float threshold) {
    const ThresholdFit fit = fit_above(values, threshold);
    if (fit.gain > best.gain) best = fit;
  };
  for (int k = 0; k < kSteps; ++k) consider(largest * (static_cast<float>(k) / static_cast<float>(kSteps)));
  for (int k = 0; k < kRefits; ++k) consider(0.5f * best.d);
  return round_f16(broadcast(best.d))[0];
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
