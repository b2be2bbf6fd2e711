// Code shared by the codebook formats. A super-block of 256 elements has a scale d (f16), an odd multiplier of d for
// each scale block of 16 or 32 elements, and a point of a fixed grid for each group of 4 or 8 elements. The iq2 and iq3
// grids hold magnitudes, and signs are stored beside them. The iq1 grid holds signed values, and each group is shifted
// by one eighth up or down.
//
// A format describes itself to the encoders (codebook_search.h, codebook_compat.h) by a struct with
//   kDim, kPoints, kScaleBlock (elements), kMaxScale (the multiplier is at most 2 kMaxScale + 1),
//   kUnit (value = d * kUnit * multiplier * grid value), kSigns, kDeltaGroups (number of groups that share a shift,
//   0: no shifts), grid() (a Grid), Block (the stored bytes) and pack(encoding).
#pragma once

#include <stdint.h>
#include <string.h>

#include "tessera/quant/formats/half.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr int kSuperBlock = 256;
inline constexpr float kDelta = 0.125f;  // iq1

enum class Signs {
  none,  // the values of the grid are signed
  free,
  even,  // the number of negative elements in each 8 is even, so the eighth sign is not stored
};

/// A super-block before packing. All zero: a block of zeros.
struct Encoding {
  uint16_t d = 0;            // f16
  uint16_t points[64] = {};  // by group
  uint8_t signs[32] = {};    // bit i of byte g: element 8g + i is negative
  uint8_t scales[16] = {};   // s of the multiplier 2s + 1, by scale block
  uint8_t is_down[32] = {};  // by group: the shift is -1/8
};

/// The values of a grid, element by element, so that a vector holds the same element of several points. Packed points
/// have one byte per element, lowest first.
template <int kDim, int kPoints>
struct Grid {
  alignas(64) float value[kDim][kPoints];

  template <class Packed>
  constexpr explicit Grid(const Packed (&points)[kPoints]) : value{} {
    for (int i = 0; i < kPoints; ++i)
      for (int k = 0; k < kDim; ++k) value[k][i] = static_cast<int8_t>(static_cast<uint8_t>(points[i] >> 8 * k));
  }
};

inline float absolute(float v) { return float_of(bits_of(v) & 0x7fffffffu); }
inline float larger(float a, float b) { return a < b ? b : a; }
inline bool is_finite(float v) { return (bits_of(v) & 0x7f800000u) != 0x7f800000u; }

/// 2^exponent; -126 <= exponent <= 127.
inline float power_of_two(int exponent) { return float_of(static_cast<uint32_t>(127 + exponent) << 23); }
/// floor(log2 v) of a normal v > 0.
inline int exponent_of(float v) { return static_cast<int>(bits_of(v) >> 23) - 127; }

/// The nearest integer, half to even, of v clamped to low..high (small integers); a NaN gives low.
inline int round_clamped(float v, int low, int high) {
  if (!(v > static_cast<float>(low))) return low;
  if (v >= static_cast<float>(high)) return high;
  return static_cast<int>((v + 0x1.8p23f) - 0x1.8p23f);
}

/// Encodes whole super-blocks with kEncode and packs them.
template <class F, Encoding (*kEncode)(const float* x, const float* weights)>
void encode_row(const float* x, const float* weights, int64_t n, void* to) {
  auto* row = static_cast<uint8_t*>(to);
  for (int64_t at = 0; at < n; at += kSuperBlock, row += sizeof(typename F::Block)) {
    const typename F::Block block = F::pack(kEncode(x + at, weights == nullptr ? nullptr : weights + at));
    memcpy(row, &block, sizeof block);
  }
}

template <class Block, void (*kDecode)(const Block&, float*)>
void decode_row(const void* from, int64_t n, float* out) {
  const auto* row = static_cast<const uint8_t*>(from);
  for (int64_t at = 0; at < n; at += kSuperBlock, row += sizeof(Block)) {
    Block block;
    memcpy(&block, row, sizeof block);
    kDecode(block, out + at);
  }
}

/// out[i] = scale * value of element i of a point, negated where bit i of `signs` is set.
template <int kDim, class Packed>
inline void decode_point(Packed point, uint32_t signs, float scale, float* out) {
  for (int i = 0; i < kDim; ++i) {
    const float value = scale * static_cast<float>(point >> 8 * i & 0xff);
    out[i] = signs >> i & 1 ? -value : value;
  }
}

/// Likewise for the signed and shifted values of iq1.
inline void decode_shifted(uint64_t point, float shift, float scale, float* out) {
  for (int i = 0; i < 8; ++i) {
    const auto value = static_cast<int8_t>(static_cast<uint8_t>(point >> 8 * i));
    out[i] = scale * (static_cast<float>(value) + shift);
  }
}

/// Four-bit numbers, two per byte, the low one first. set_nibble requires that the nibble is zero.
inline int nibble(const uint8_t* bytes, int i) { return bytes[i / 2] >> 4 * (i % 2) & 15; }
inline void set_nibble(uint8_t* bytes, int i, int value) {
  bytes[i / 2] = static_cast<uint8_t>(bytes[i / 2] | value << 4 * (i % 2));
}

/// The word of 32 elements in iq2_xxs and iq3_xxs: four sign indices of 7 bits, then s.
inline uint32_t signs_and_scale(const Encoding& encoding, int i) {
  uint32_t word = static_cast<uint32_t>(encoding.scales[i]) << 28;
  for (int g = 0; g < 4; ++g) word |= static_cast<uint32_t>(encoding.signs[4 * i + g] & 127) << 7 * g;
  return word;
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
