// The layout of super-blocks of 256 in the K-quant encoders. Each of the 16 lanes holds one sub-block, so a vector is
// one super-block of 16 sub-blocks of 16, or two of 8 sub-blocks of 32.
//
// Values are divided by a power of two near the largest of their super-block. The division is exact, and no later
// product or square leaves the range of f32, for any input.
#pragma once

#include "tessera/quant/formats/half.h"
#include "tessera/quant/formats/vec.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr int kSuperElements = 256;

/// Sub-blocks of N elements.
template <int N>
struct Lanes {
  static constexpr int kSupers = N / 16;            // super-blocks in a vector
  static constexpr int kSubs = kSuperElements / N;  // sub-blocks (lanes) of a super-block

  F32x16 x[N], w[N];    // w: importances, set by load_weights() or by the rule of the format
  float unit[kSupers];  // x is source / unit
};

/// to[i] lane b is element i of sub-block b; the lanes past n_supers super-blocks are copies of the first.
template <int N>
inline void transpose(const float* from, int n_supers, F32x16 (&to)[N]) {
  alignas(64) float rows[N * kLanes];
  for (int super = 0; super < Lanes<N>::kSupers; ++super) {
    const float* values = from + (super < n_supers ? super : 0) * kSuperElements;
    for (int b = 0; b < Lanes<N>::kSubs; b += 4)
      for (int i = 0; i < N; i += 4)
        transpose_tile(values + b * N + i, N, rows + i * kLanes + super * Lanes<N>::kSubs + b, kLanes);
  }
  memcpy(to, rows, sizeof to);
}

/// v[super] in the lanes of each super-block.
template <int N>
[[gnu::always_inline]] inline F32x16 spread(const float (&v)[N / 16]) {
  F32x16 out;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = v[lane / Lanes<N>::kSubs];
  return out;
}

/// Sums or maxima over the lanes of each super-block, in the order of the lanes.
template <int N>
inline void sum_lanes(F32x16 v, float (&sums)[N / 16]) {
  float lanes[kLanes];
  store(v, lanes);
  for (int super = 0; super < Lanes<N>::kSupers; ++super) {
    float sum = 0.0f;
    for (int b = 0; b < Lanes<N>::kSubs; ++b) sum += lanes[super * Lanes<N>::kSubs + b];
    sums[super] = sum;
  }
}
template <int N>
inline void max_lanes(F32x16 v, float (&maxima)[N / 16]) {
  float lanes[kLanes];
  store(v, lanes);
  for (int super = 0; super < Lanes<N>::kSupers; ++super) {
    float largest = lanes[super * Lanes<N>::kSubs];
    for (int b = 1; b < Lanes<N>::kSubs; ++b) {
      const float v_b = lanes[super * Lanes<N>::kSubs + b];
      largest = v_b > largest ? v_b : largest;
    }
    maxima[super] = largest;
  }
}

/// The largest power of two that is <= v, for v clamped to 2^-100 .. 2^100.
inline float power_of_two_below(float v) {
  if (!(v > 0x1p-100f)) return 0x1p-100f;
  return v < 0x1p100f ? float_of(bits_of(v) & 0x7f800000u) : 0x1p100f;
}

/// Sets x and unit. Values are clamped to 2^40, NaNs too; these formats represent values below 2^29. A super-block with
/// all values below 2^-26 becomes zeros; the smallest step of these formats is 2^-24.
template <int N>
inline void load_values(const float* x, int n_supers, Lanes<N>& lanes) {
  transpose(x, n_supers, lanes.x);
  F32x16 largest = {};
  for (F32x16& v : lanes.x) {
    v = clamp(v, -0x1p40f, 0x1p40f);
    largest = max(abs(v), largest);
  }
  float maxima[N / 16], factors[N / 16];
  max_lanes<N>(largest, maxima);
  for (int super = 0; super < Lanes<N>::kSupers; ++super) {
    lanes.unit[super] = maxima[super] < 0x1p-26f ? 1.0f : power_of_two_below(maxima[super]);
    factors[super] = maxima[super] < 0x1p-26f ? 0.0f : 1.0f / lanes.unit[super];
  }
  const F32x16 factor = spread<N>(factors);
  for (F32x16& v : lanes.x) v = v * factor;
}

/// Sets w from one weight per element (null: all are 1), divided by a power of two near the super-block's largest.
template <int N>
inline void load_weights(const float* weights, int n_supers, Lanes<N>& lanes) {
  if (weights == nullptr) {
    for (F32x16& w : lanes.w) w = broadcast(1.0f);
    return;
  }
  transpose(weights, n_supers, lanes.w);
  F32x16 largest = {};
  for (const F32x16& w : lanes.w) largest = max(w, largest);
  float factors[N / 16];
  max_lanes<N>(largest, factors);
  for (float& f : factors) f = 1.0f / power_of_two_below(f);
  const F32x16 factor = spread<N>(factors);
  for (F32x16& w : lanes.w) w = w * factor;
}

[[gnu::always_inline]] inline F32x16 sqrt(F32x16 v) {
  for (int lane = 0; lane < kLanes; ++lane) v[lane] = __builtin_sqrtf(v[lane]);
  return v;
}

/// v rounded to an integer in 0..top (low..top), half to even; a NaN gives the lower end.
[[gnu::always_inline]] inline F32x16 code_of(F32x16 v, float low, float top) { return round_even(clamp(v, low, top)); }
[[gnu::always_inline]] inline F32x16 code_of(F32x16 v, float top) { return code_of(v, 0.0f, top); }

/// Stores the code of element i of lane b as byte codes[b * N + i]; codes are integers in -128..255.
template <int N>
inline void store_codes(const F32x16 (&codes)[N], uint8_t* bytes) {
  uint8_t rows[N][kLanes];
  for (int i = 0; i < N; ++i) {
    to_bytes(to_i32(codes[i]), rows[i]);
  }
  for (int b = 0; b < kLanes; ++b)
    for (int i = 0; i < N; ++i) bytes[b * N + i] = rows[i][b];
}

/// The value of largest magnitude of each lane with its sign, the first one on ties.
template <int N>
inline F32x16 extreme_of(const F32x16 (&x)[N]) {
  F32x16 extreme = x[0];
  for (int i = 1; i < N; ++i) extreme = select(abs(x[i]) > abs(extreme), x[i], extreme);
  return extreme;
}

/// x is about a * code - m, per lane.
struct AffineFit {
  F32x16 a, m;
};

/// A coded vector of sub-blocks: value = d * ls * code - dmin * lm, or d * ls * code.
template <int N>
struct Coded {
  F32x16 codes[N], ls, lm;
  uint16_t d[N / 16], dmin[N / 16];  // f16
};

/// The f16 scales of a vector in the units of its lanes.
template <int N>
inline F32x16 scale_of(const Lanes<N>& lanes, const uint16_t (&d)[N / 16]) {
  float v[N / 16];
  for (int super = 0; super < Lanes<N>::kSupers; ++super) v[super] = f16_to_f32(d[super]) / lanes.unit[super];
  return spread<N>(v);
}

/// The codes in low..top nearest to x for the scales already in `coded`; 0 if the scale is 0.
template <int N>
inline void recode(const Lanes<N>& lanes, float low, float top, Coded<N>& coded) {
  const F32x16 a = scale_of(lanes, coded.d) * coded.ls, m = scale_of(lanes, coded.dmin) * coded.lm;
  for (int i = 0; i < N; ++i) coded.codes[i] = select(a == 0.0f, F32x16{}, code_of((lanes.x[i] + m) / a, low, top));
}

/// One coded super-block; negative codes are in two's complement.
struct SuperCodes {
  uint16_t d, dmin;
  uint8_t codes[kSuperElements];
  uint8_t ls[16], lm[16];
};

/// Splits `coded` into super-blocks. If the scales of a super-block are zero, all its codes are zero too, so that zeros
/// have only one encoding.
template <int N>
inline void split(const Coded<N>& coded, SuperCodes (&supers)[N / 16]) {
  uint8_t codes[N * kLanes], ls[kLanes], lm[kLanes];
  store_codes(coded.codes, codes);
  for (int lane = 0; lane < kLanes; ++lane) {
    ls[lane] = static_cast<uint8_t>(static_cast<int>(coded.ls[lane]));
    lm[lane] = static_cast<uint8_t>(static_cast<int>(coded.lm[lane]));
  }
  constexpr int kSubs = Lanes<N>::kSubs;
  for (int super = 0; super < Lanes<N>::kSupers; ++super) {
    SuperCodes& out = supers[super];
    out = {};
    if (((coded.d[super] | coded.dmin[super]) & 0x7fffu) == 0) continue;
    out.d = coded.d[super];
    out.dmin = coded.dmin[super];
    memcpy(out.codes, codes + super * kSuperElements, kSuperElements);
    memcpy(out.ls, ls + super * kSubs, kSubs);
    memcpy(out.lm, lm + super * kSubs, kSubs);
  }
}

/// Encodes a row: code() computes scales and codes from lanes with x and w set, pack() writes the bytes of a block.
template <int N, class Block>
inline void encode_supers(const float* x, const float* weights, int64_t n, void* to,
                          void (*code)(Lanes<N>& lanes, Coded<N>& coded), Block (*pack)(const SuperCodes& codes)) {
  constexpr int kSupers = Lanes<N>::kSupers;
  auto* row = static_cast<uint8_t*>(to);
  const int64_t n_supers = n / kSuperElements;
  for (int64_t first = 0; first < n_supers; first += kSupers) {
    const int count = n_supers - first < kSupers ? static_cast<int>(n_supers - first) : kSupers;
    const int64_t at = first * kSuperElements;
    Lanes<N> lanes;
    Coded<N> coded;
    SuperCodes supers[kSupers];
    load_values(x + at, count, lanes);
    load_weights(weights == nullptr ? nullptr : weights + at, count, lanes);
    code(lanes, coded);
    split(coded, supers);
    for (int super = 0; super < count; ++super, row += sizeof(Block)) {
      const Block block = pack(supers[super]);
      memcpy(row, &block, sizeof block);
    }
  }
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
