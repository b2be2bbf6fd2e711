// The searches for the scales of a block: candidates, refits and roundings shared by the formats with blocks of 16 to
// 64 elements. Each finds the scale with the least sum w (x - value)^2 for up to 16 blocks at once, as the f16 to
// store.
//
// Codes are always chosen for the stored scale, never for the scale before rounding. An error that is not finite never
// wins, so a block with a NaN or an infinity gets the scale 0.
#pragma once

#include "tessera/quant/formats/groups.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

/// The levels of a format are a type with
///   static F32x16 nearest(F32x16 v)   the level nearest to v; any v, including NaN, gives a level
///   static constexpr Targets kTargets the candidate scales: the block's extreme value / target
///   static constexpr int kRefits      number of times that the best scale is fitted to its codes
template <int N>
struct Targets {
  float values[N];
};

/// Targets of integer levels -top .. top - 1 in both orientations: the extreme value becomes about -top, or top - 1.
template <int kCount>
constexpr Targets<2 * kCount> integer_targets(float top, float first, float step) {
  Targets<2 * kCount> targets = {};
  for (int k = 0; k < kCount; ++k) {
    const float shift = first + step * static_cast<float>(k);
    targets.values[2 * k] = -(top + shift);
    targets.values[2 * k + 1] = top - 1.0f + shift;
  }
  return targets;
}

/// Integers kLow .. kHigh.
template <int kLow, int kHigh>
struct IntegerLevels {
  static F32x16 nearest(F32x16 v) { return round_even(clamp(v, static_cast<float>(kLow), static_cast<float>(kHigh))); }
};

/// Sums over a block of w x l and of w l^2, for one choice of levels l.
struct Products {
  F32x16 xl, ll;
};
template <typename Levels, int N>
[[gnu::always_inline]] inline Products products_at(const Group<N>& group, F32x16 inverse) {
  Products sum = {};
  for (int i = 0; i < N; ++i) {
    const F32x16 level = Levels::nearest(group.x[i] * inverse);
    sum.xl += group.wx[i] * level;
    sum.ll += group.w[i] * level * level;
  }
  return sum;
}

/// The best scale d over all candidates, before rounding. It may be negative. 0 if no candidate has a finite gain.
template <typename Levels, int N>
inline F32x16 search_scale(const Group<N>& group) {
  const F32x16 unit = 1.0f / extreme_value(group.x);
  F32x16 best = {}, d = {};
  for (const float target : Levels::kTargets.values) {
    const Products sum = products_at<Levels>(group, unit * target);
    const F32x16 fit = sum.xl / sum.ll, gain = sum.xl * fit;  // the error is sum w x^2 - gain
    const I32x16 better = gain > best;
    best = select(better, gain, best);
    d = select(better, fit, d);
  }
  for (int i = 0; i < Levels::kRefits; ++i) {
    const Products sum = products_at<Levels>(group, inverse_or_zero(d));
    const F32x16 fit = sum.xl / sum.ll, gain = sum.xl * fit;
    d = select(gain >= best, fit, d);  // false if the sums overflow or all levels are 0
    best = select(gain >= best, gain, best);
  }
  return d;
}

/// sum w (x - d level)^2 with the levels nearest for a stored scale.
template <typename Levels, int N>
[[gnu::always_inline]] inline F32x16 error_at(const Group<N>& group, F32x16 d) {
  const F32x16 inverse = inverse_or_zero(d);
  F32x16 sum = {};
  for (int i = 0; i < N; ++i) {
    const F32x16 e = group.x[i] - d * Levels::nearest(group.x[i] * inverse);
    sum += group.w[i] * e * e;
  }
  return sum;
}
/// The error of zeros.
template <int N>
[[gnu::always_inline]] inline F32x16 error_of_zeros(const Group<N>& group) {
  F32x16 sum = {};
  for (int i = 0; i < N; ++i) sum += group.wx[i] * group.x[i];
  return sum;
}

/// x is about d * code + m with codes 0 .. top and d >= 0. Both d and m are f16 values.
struct AffineScale {
  F32x16 d, m;
};
struct AffineSteps {
  float first, step;  // candidate k divides the range of the values into top + first + k step parts
  int count, refits;
};

/// Sums over a block of w c, w c^2 and w y c, for codes c and y = x - least x, and the line that fits best.
struct LineSums {
  F32x16 c, cc, yc;
};

template <int N>
inline AffineScale search_affine(const Group<N>& group, float top, AffineSteps steps) {
  const auto& [x, w, wx] = group;
  F32x16 low = x[0], high = x[0], sum_w = {}, sum_wy = {};
  for (int i = 1; i < N; ++i) low = min(low, x[i]), high = max(x[i], high);
  F32x16 y[N], wy[N];
  for (int i = 0; i < N; ++i) {
    y[i] = x[i] - low;
    wy[i] = w[i] * y[i];
    sum_w += w[i];
    sum_wy += wy[i];
  }
  const F32x16 range = high - low;

  F32x16 best = sum_wy * (sum_wy / sum_w), d = {}, m = sum_wy / sum_w;  // all codes 0: the mean
  F32x16 offset = {};
  const auto consider = [&](F32x16 inverse, F32x16 from) {
    LineSums sum = {};
    for (int i = 0; i < N; ++i) {
      const F32x16 code = round_even(clamp((y[i] - from) * inverse, 0.0f, top)), w_code = w[i] * code;
      sum.c += w_code;
      sum.cc += w_code * code;
      sum.yc += wy[i] * code;
    }
    const F32x16 slope = (sum_w * sum.yc - sum_wy * sum.c) / (sum_w * sum.cc - sum.c * sum.c);
    const F32x16 intercept = (sum_wy - slope * sum.c) / sum_w;
    const F32x16 gain = slope * sum.yc + intercept * sum_wy;  // the error is sum w y^2 - gain
    const I32x16 better = gain > best;
    best = select(better, gain, best);
    d = select(better, slope, d);
    m = select(better, intercept, m);
  };
  for (int k = 0; k < steps.count; ++k) {
    consider((top + steps.first + steps.step * static_cast<float>(k)) / range, offset);
    offset = select(d > 0.0f, m, offset);  // later candidates start at the offset of the best line so far
  }
  for (int k = 0; k < steps.refits; ++k) consider(inverse_or_zero(d), m);

  AffineScale stored = {round_f16(d), round_f16(low + m)};
  // Fits the slope again, for the stored intercept.
  const F32x16 inverse = inverse_or_zero(stored.d);
  F32x16 xc = {}, cc = {};
  for (int i = 0; i < N; ++i) {
    const F32x16 z = x[i] - stored.m, code = round_even(clamp(z * inverse, 0.0f, top));
    xc += w[i] * z * code;
    cc += w[i] * code * code;
  }
  const F32x16 slope = xc / cc;
  stored.d = select(slope > 0.0f, round_f16(slope), stored.d);

  const F32x16 stored_inverse = inverse_or_zero(stored.d);
  F32x16 error = {}, zeros = {};
  for (int i = 0; i < N; ++i) {
    const F32x16 code = round_even(clamp((x[i] - stored.m) * stored_inverse, 0.0f, top));
    const F32x16 e = x[i] - (stored.d * code + stored.m);
    error += w[i] * e * e;
    zeros += wx[i] * x[i];
  }
  const I32x16 keep = error < zeros;
  return {select(keep, stored.d, F32x16{}), select(keep, stored.m, F32x16{})};
}

/// The codes of an affine scale; 0 if d is 0.
template <int N>
inline void affine_codes(const F32x16 (&x)[N], AffineScale scale, float top, I32x16 (&codes)[N]) {
  const F32x16 inverse = inverse_or_zero(scale.d);
  for (int i = 0; i < N; ++i) {
    const F32x16 code = round_even(clamp((x[i] - scale.m) * inverse, 0.0f, top));
    codes[i] = to_i32(select(scale.d > 0.0f, code, F32x16{}));
  }
}

/// The levels nearest to x / d, plus an offset, as codes; only the offset if d is 0.
template <typename Levels, int N>
inline void symmetric_codes(const F32x16 (&x)[N], F32x16 d, int offset, I32x16 (&codes)[N]) {
  const F32x16 inverse = inverse_or_zero(d);
  for (int i = 0; i < N; ++i) codes[i] = to_i32(select(d != 0.0f, Levels::nearest(x[i] * inverse), F32x16{})) + offset;
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
