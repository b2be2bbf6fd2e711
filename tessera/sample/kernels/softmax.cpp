// Softmax passes with vector types of the compiler, as wide as the registers of the set. Sixteen lanes are processed at
// a time, in 16 / kWidth vectors, so that every set adds the same numbers in the same order.
#include "tessera/sample/kernels/softmax.h"

#include <stdint.h>
#include <string.h>

namespace tessera::sample::TESSERA_ISA_NAMESPACE {

#if defined(TESSERA_ISA_avx512)
inline constexpr int kBytes = 64;
#elif defined(TESSERA_ISA_avx2)
inline constexpr int kBytes = 32;
#else
inline constexpr int kBytes = 16;
#endif

using Floats [[gnu::vector_size(kBytes)]] = float;
using Ints [[gnu::vector_size(kBytes)]] = int32_t;

inline constexpr int kLanes = 16, kWidth = kBytes / 4, kVectors = kLanes / kWidth;

// Each lane adds at most this many floats before its sum goes into a double.
inline constexpr size_t kAddends = 64;

struct Lanes {
  Floats parts[kVectors];
};

[[gnu::always_inline]] inline Lanes load(const float* x) {
  Lanes lanes;
  memcpy(lanes.parts, x, sizeof lanes.parts);
  return lanes;
}

/// The first n lanes, and `fill` in the others.
[[gnu::always_inline]] inline Lanes load_first(const float* x, size_t n, float fill) {
  float all[kLanes];
  for (float& lane : all) lane = fill;
  memcpy(all, x, n * sizeof(float));
  return load(all);
}

/// exp(x) for x <= 0, and at most 2^-126 below -87. With t = x log2(e) it is 2^n 2^f for n = round(t) and f = t - n.
/// 2^f is the Taylor series of exp(f ln 2) up to the sixth power, whose remainder is below 1.3e-7.
[[gnu::always_inline]] inline Floats exp_nonpositive(Floats x) {
  constexpr float kShift = 0x1.8p23f;  // adding it leaves no fraction bits
  const Floats lowest = Floats{} - 126.0f;
  Floats t = x * 0x1.715476p+0f;
  t = t > lowest ? t : lowest;
  const Floats shifted = t + kShift;
  const Floats f = t - (shifted - kShift);
  Floats p = f * 1.5403530e-4f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  // Adds n to the exponent of p, which is in [0.7, 1.5). The low bits of `shifted` are n, and kShift has none there.
  const Ints bits = reinterpret_cast<Ints>(p) + (reinterpret_cast<Ints>(shifted) << 23);
  return reinterpret_cast<Floats>(bits);
}

[[gnu::always_inline]] inline void add_exp(Lanes& sums, const Lanes& x, float shift) {
  for (int i = 0; i < kVectors; ++i) sums.parts[i] += exp_nonpositive(x.parts[i] - shift);
}

inline double total_of(const Lanes& sums) {
  float lanes[kLanes];
  memcpy(lanes, sums.parts, sizeof lanes);
  double total = 0;
  for (const float lane : lanes) total += static_cast<double>(lane);
  return total;
}

double sum_of_exp(const float* x, size_t n, float shift) {
  double total = 0;
  size_t i = 0;
  while (i + kLanes <= n) {
    Lanes sums = {};
    for (size_t k = 0; k < kAddends && i + kLanes <= n; ++k, i += kLanes) add_exp(sums, load(x + i), shift);
    total += total_of(sums);
  }
  if (i < n) {
    Lanes sums = {};
    add_exp(sums, load_first(x + i, n - i, -__builtin_inff()), shift);
    total += total_of(sums);
  }
  return total;
}

struct Greatest {
  Lanes values;
  Ints is_nan[kVectors] = {};
};

[[gnu::always_inline]] inline void include(Greatest& best, const Lanes& x) {
  for (int i = 0; i < kVectors; ++i) {
    const Floats v = x.parts[i];
    best.values.parts[i] = v > best.values.parts[i] ? v : best.values.parts[i];
    best.is_nan[i] |= v != v;
  }
}

float greatest(const float* x, size_t n) {
  constexpr float kLowest = -__builtin_inff();
  Greatest best{load_first(x, 0, kLowest)};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) include(best, load(x + i));
  include(best, load_first(x + i, n - i, kLowest));
  float values[kLanes];
  int32_t is_nan[kLanes];
  memcpy(values, best.values.parts, sizeof values);
  memcpy(is_nan, best.is_nan, sizeof is_nan);
  float result = kLowest;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (is_nan[lane] != 0) return __builtin_nanf("");
    result = values[lane] > result ? values[lane] : result;
  }
  return result;
}

const SoftmaxKernels& softmax_kernels() {
  static constexpr SoftmaxKernels kKernels = {greatest, sum_of_exp};
  return kKernels;
}

}  // namespace tessera::sample::TESSERA_ISA_NAMESPACE
