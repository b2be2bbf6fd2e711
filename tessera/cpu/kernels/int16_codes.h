// Vectors as 16-bit integers, for products that are exact sums. Used by attention_codes.h and matmul_int16.h.
//
// A vector's elements become codes: integers in units of its largest element, rounded to the nearest. The largest code
// is as large as a sum of products of codes allows without overflow in 32 bits. So the sums depend neither on the order
// nor on the instruction set. A multiply-add instruction takes two products per lane, twice as many as in f32.
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The largest code of vectors of n elements: sums of n products of two codes are below 2^31.
constexpr float largest_code(int n) {
  const auto root = static_cast<int>(__builtin_sqrt(2147483647.0 / n));
  return static_cast<float>(root < 32767 ? root : 32767);
}

/// Encodes the vectors whose largest magnitudes are `largest`, one per lane. If that is infinite or a NaN, the product
/// of the unit and of a sum of codes is a NaN. If it is too small for a finite inverse, all codes are 0. Both follow
/// from the bits of infinities and of NaNs that arithmetic gives: their low halves are 0.
struct Encoder {
  F32x16 inverse;  // codes per unit of value
  F32x16 unit;     // value of a code of 1

  Encoder() = default;
  Encoder(F32x16 largest, float limit)
      : inverse(div(F32x16::broadcast(limit), largest)), unit(div(largest, F32x16::broadcast(limit))) {}
  /// The codes in the low halves of the lanes.
  I32x16 code(F32x16 x) const {
    constexpr float kIntegers = 0x1.8p23f;  // floats from here on are integers, the last bits of which are the code
    return as_bits(fma(x, inverse, F32x16::broadcast(kIntegers)));
  }
  /// The codes of two elements of each vector, as the pair that add_pairs() multiplies.
  I32x16 pair(F32x16 first, F32x16 second) const { return low_halves(code(first), code(second)); }
};

/// The magnitudes of floats as integers. They have the same order, in which a NaN is above all numbers.
inline I32x16 magnitude_bits(F32x16 x) { return as_bits(abs(x)); }

inline constexpr size_t kPairBytes = 2 * kLanes * sizeof(uint16_t);  // two elements of 16 vectors of 16-bit floats

/// The largest magnitudes of 16 vectors of n_pairs pairs of 16-bit floats, as the bits of floats. The vectors are
/// stored as [pair][first, second][16 vectors]; load() reads an element of all of them.
template <class Load>
I32x16 largest_of_pairs(const void* pairs, int n_pairs, Load load) {
  // The bits of 16-bit floats have the order of their magnitudes too. Two chains hide the latency of the maximum.
  I32x16 even = I32x16::zero(), odd = even;
  const auto* const first = static_cast<const char*>(pairs);
  const auto add = [=](I32x16 highest, int pair) {
    const I32x16 halves = I32x16::load(first + static_cast<size_t>(pair) * kPairBytes);
    return max_halves(highest, bit_and(halves, I32x16::broadcast(0x7fff7fff)));
  };
  int i = 0;
  for (; i + 2 <= n_pairs; i += 2) {
    even = add(even, i);
    odd = add(odd, i + 1);
  }
  if (i < n_pairs) even = add(even, i);
  alignas(64) uint16_t halves[2 * kLanes];
  max_halves(even, odd).store(halves);
  return max(magnitude_bits(load(halves)), magnitude_bits(load(halves + kLanes)));
}

/// Encodes n floats as pairs, `stride` words apart. A last element without a partner is paired with 0. Returns the
/// unit.
inline float encode_floats(const float* x, int n, float limit, int32_t* pairs, int64_t stride) {
  const auto part = [=](int i) { return n - i >= kLanes ? F32x16::load(x + i) : F32x16::load_partial(x + i, n - i); };
  I32x16 magnitudes = I32x16::zero();
  for (int i = 0; i < n; i += kLanes) magnitudes = max(magnitudes, magnitude_bits(part(i)));
  alignas(64) int32_t lanes[kLanes];
  magnitudes.store(lanes);
  int32_t highest = 0;
  for (int i = 0; i < kLanes; ++i) highest = lanes[i] > highest ? lanes[i] : highest;
  const Encoder encoder(as_floats(I32x16::broadcast(highest)), limit);
  for (int i = 0; i < n; i += kLanes) {
    encoder.code(part(i)).store(lanes);
    uint16_t codes[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) codes[lane] = static_cast<uint16_t>(lanes[lane]);
    const int n_pairs = n - i >= kLanes ? kLanes / 2 : (n - i + 1) / 2;
    for (int pair = 0; pair < n_pairs; ++pair, pairs += stride) memcpy(pairs, codes + 2 * pair, sizeof *pairs);
  }
  alignas(64) float unit[kLanes];
  encoder.unit.store(unit);
  return unit[0];
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
