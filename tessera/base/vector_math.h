// Functions on four floats at a time, for sums over a vocabulary. They need only baseline x86-64 instructions and give
// the same bits on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace tessera {

using F32x4 = float __attribute__((vector_size(16)));
using I32x4 = int32_t __attribute__((vector_size(16)));
using I64x2 = int64_t __attribute__((vector_size(16)));
using U16x8 = uint16_t __attribute__((vector_size(16)));

inline F32x4 load4(const float* p) {
  F32x4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline F32x4 load4(const uint16_t* p) {
  U16x8 v{};
  std::memcpy(&v, p, 8);
  const U16x8 wide = __builtin_shufflevector(v, U16x8{}, 0, 8, 1, 8, 2, 8, 3, 8);
  return __builtin_convertvector(reinterpret_cast<I32x4>(wide), F32x4);
}

/// Stores integers from 0 to 65535.
inline void store4(F32x4 x, uint16_t* p) {
  const auto words = reinterpret_cast<U16x8>(__builtin_convertvector(x, I32x4));
  const U16x8 narrow = __builtin_shufflevector(words, words, 0, 2, 4, 6, 0, 2, 4, 6);
  std::memcpy(p, &narrow, 8);
}

inline F32x4 splat(float x) { return F32x4{x, x, x, x}; }

inline F32x4 select4(I32x4 mask, F32x4 a, F32x4 b) {
  return reinterpret_cast<F32x4>((reinterpret_cast<I32x4>(a) & mask) | (reinterpret_cast<I32x4>(b) & ~mask));
}

/// Whether a mask has any bit set.
inline bool any4(I32x4 mask) {
  const auto halves = reinterpret_cast<I64x2>(mask);
  return (halves[0] | halves[1]) != 0;
}

inline double sum_of(F32x4 v) {
  return (static_cast<double>(v[0]) + static_cast<double>(v[1])) +
         (static_cast<double>(v[2]) + static_cast<double>(v[3]));
}

/// Rounds to the nearest integers, halves to even. Magnitudes of 2^22 and more are unchanged.
inline F32x4 round4(F32x4 x) {
  constexpr float kShift = 0x1.8p23f;  // adding it leaves no fraction bits
  const I32x4 is_small = (x > -0x1p22f) & (x < 0x1p22f);
  return select4(is_small, (x + kShift) - kShift, x);
}

/// exp(x) for x <= 88 with an error of at most 2 ULP; 0 below -87; NaN for NaN.
///
/// exp(x) = 2^n exp(r), n = round(x / log 2), |r| <= log(2) / 2. exp(r) is its Taylor series up to r^7 / 7!, whose
/// remainder is below 6e-9.
inline F32x4 exp4(F32x4 x) {
  constexpr float kShift = 0x1.8p23f;                                    // adding it leaves no fraction bits
  constexpr float kLog2High = 0x1.62e4p-1f, kLog2Low = 0x1.7f7d1cp-20f;  // their sum is log 2, n * kLog2High is exact
  const F32x4 shifted = x * 0x1.715476p+0f + kShift;
  const F32x4 n = shifted - kShift;
  const F32x4 r = (x - n * kLog2High) - n * kLog2Low;
  F32x4 p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // Adds n to the exponent of p, which is in [0.7, 1.5).
  const auto bits = reinterpret_cast<I32x4>(p) + ((reinterpret_cast<I32x4>(shifted) - 0x4b400000) << 23);
  // NOLINTNEXTLINE(misc-redundant-expression): x != x finds NaN
  const I32x4 is_tiny = x < -87.0f, is_nan = x != x;  // as masks: all bits set is a NaN
  return reinterpret_cast<F32x4>((bits & ~is_tiny) | is_nan);
}

struct Extremes {
  float lowest, highest;
};

/// Returns the extremes of at least one number. NaNs may be skipped.
inline Extremes extremes_of(std::span<const float> x) {
  F32x4 lowest = splat(x[0]), highest = lowest;
  size_t i = 0;
  for (; i + 4 <= x.size(); i += 4) {
    const F32x4 v = load4(&x[i]);
    lowest = v < lowest ? v : lowest;
    highest = v > highest ? v : highest;
  }
  Extremes result{lowest[0], highest[0]};
  for (int lane = 1; lane < 4; ++lane)
    result = {std::min(result.lowest, lowest[lane]), std::max(result.highest, highest[lane])};
  for (; i < x.size(); ++i) result = {std::min(result.lowest, x[i]), std::max(result.highest, x[i])};
  return result;
}

}  // namespace tessera
