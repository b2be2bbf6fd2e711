// Encodes values in the formats that a KV cache may have, by the CPU's rules (cpu/kernels/row_formats.h). The bytes are
// identical, because the device divides exactly and kernels are compiled without contraction of products and sums.
#pragma once

#include "tessera/cuda/kernels/formats.cuh"
#include "tessera/cuda/kernels/math.cuh"

namespace tessera::cuda {

/// Rounded to nearest even. The device's conversions would replace the sign and the payload of a NaN.
__device__ inline uint32_t half_of_float(float f) {
  const uint32_t bits = bits_of(f);
  if (is_nan(f)) return (bits >> 16 & 0x8000) | 0x7e00 | (bits >> 13 & 0x3ff);
  return pack_halves(f, 0.0f) & 0xffff;
}
__device__ inline uint32_t bf16_of_float(float f) {
  if (is_nan(f)) return bits_of(f) >> 16 | 0x40;
  return pack_bf16(f, 0.0f) & 0xffff;
}
/// For format f16 or bf16.
__device__ inline uint32_t narrow_of_float(uint32_t format, float f) {
  return format == kFormat_f16 ? half_of_float(f) : bf16_of_float(f);
}

constexpr uint32_t kMostBlockHalves = kBytes_q8_0 / 2;

/// A block of 32 elements in units of two bytes, lowest byte first. The first block_halves() are used.
struct Block {
  uint32_t halves[kMostBlockHalves];
};
__device__ inline uint32_t block_halves(uint32_t format) {
  switch (format) {
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes)
#define TESSERA_KV_FORMAT(name, symbol, text, id, elements, bytes) \
  case kFormat_##name:                                             \
    return bytes / 2;
#include "tessera/tensor/dtype.def"
  }
  return 0;
}

__device__ inline uint32_t scale_half(float f) { return is_nan(f) ? 0x7e00 : half_of_float(f); }
__device__ inline float inverse_or_zero(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }
/// Returns low for a NaN.
__device__ inline float clamped(float v, float low, float high) {
  const float bounded = v > low ? v : low;
  return bounded < high ? bounded : high;
}

/// Returns the first element of the largest magnitude. NaNs are skipped.
__device__ inline float extreme_of(const float (&x)[32]) {
  float largest = 0, extreme = 0;
  for (uint32_t i = 0; i < 32; ++i)
    if (fabsf(x[i]) > largest) {
      largest = fabsf(x[i]);
      extreme = x[i];
    }
  return extreme;
}

/// Writes codes from half `at` on. Byte j holds the low four bits of elements j and j + 16.
__device__ inline void put_nibbles(const uint32_t (&codes)[32], uint32_t at, Block& block) {
  for (uint32_t h = 0; h < 8; ++h)
    block.halves[at + h] = (codes[2 * h] & 15) | (codes[2 * h + 16] & 15) << 4 | (codes[2 * h + 1] & 15) << 8 |
                           (codes[2 * h + 17] & 15) << 12;
}
__device__ inline void put_fifth_bits(const uint32_t (&codes)[32], uint32_t at, Block& block) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < 32; ++i) bits |= codes[i] >> 4 << i;
  block.halves[at] = bits & 0xffff;
  block.halves[at + 1] = bits >> 16;
}

__device__ inline void encode_q8_0(const float (&x)[32], Block& block) {
  float largest = 0;
  for (uint32_t i = 0; i < 32; ++i) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
  const float d = largest / 127.0f;
  const float inverse = 1.0f / d, finite = fabsf(inverse) <= FLT_MAX ? inverse : 0.0f;
  block.halves[0] = half_of_float(d);
  for (uint32_t h = 0; h < 16; ++h) {
    uint32_t codes[2];
    for (uint32_t i = 0; i < 2; ++i) {
      const float v = clamped(x[2 * h + i] * finite, -127.0f, 127.0f);
      const int32_t whole = static_cast<int32_t>(v);
      const float rest = v - static_cast<float>(whole);  // exact; half-way cases round away from zero
      codes[i] = static_cast<uint32_t>(whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0)) & 255;
    }
    block.halves[1 + h] = codes[0] | codes[1] << 8;
  }
}

/// Computes the codes (x - origin) * inverse + shift, clamped to [0, top] and truncated.
__device__ inline void integer_codes(const float (&x)[32], float origin, float inverse, float shift, float top,
                                     uint32_t (&codes)[32]) {
  for (uint32_t i = 0; i < 32; ++i)
    codes[i] = static_cast<uint32_t>(clamped((x[i] - origin) * inverse + shift, 0.0f, top));
}

/// q4_0 and q5_0, of four and five bits.
template <uint32_t kBits>
__device__ inline void encode_symmetric(const float (&x)[32], Block& block) {
  constexpr float kOffset = kBits == 5 ? 16 : 8;  // half the number of codes
  const float d = extreme_of(x) / -kOffset;
  block.halves[0] = scale_half(d);
  uint32_t codes[32];
  integer_codes(x, 0.0f, inverse_or_zero(d), kOffset + 0.5f, 2 * kOffset - 1, codes);
  if constexpr (kBits == 5) put_fifth_bits(codes, 1, block);
  put_nibbles(codes, kBits == 5 ? 3 : 1, block);
}

/// q4_1 and q5_1, of four and five bits.
template <uint32_t kBits>
__device__ inline void encode_affine(const float (&x)[32], Block& block) {
  constexpr float kTop = kBits == 5 ? 31 : 15;  // the range of values is divided into so many steps
  float low = x[0], high = x[0];                // NaN if the first element is NaN; other NaNs are skipped
  for (uint32_t i = 1; i < 32; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  const float d = (high - low) / kTop;
  block.halves[0] = scale_half(d);
  block.halves[1] = scale_half(low);
  uint32_t codes[32];
  integer_codes(x, low, inverse_or_zero(d), 0.5f, kTop, codes);
  if constexpr (kBits == 5) put_fifth_bits(codes, 2, block);
  put_nibbles(codes, kBits == 5 ? 4 : 2, block);
}

/// Sum of 16 terms in the CPU's order: i with i + 8, then i + 4, i + 2, i + 1.
__device__ inline float tree_sum(float (&v)[16]) {
  for (uint32_t s = 8; s > 0; s /= 2)
    for (uint32_t i = 0; i < s; ++i) v[i] += v[i + s];
  return v[0];
}

/// The value of the largest magnitude is mapped to the level -127, the others to the nearest levels. Then d is fitted
/// by least squares.
__device__ inline void encode_iq4_nl(uint64_t tables, const float (&x)[32], Block& block) {
  float levels[16];
  for (uint32_t c = 0; c < 16; ++c)
    levels[c] = byte_minus(table_word(tables, kTableIq4 + c / 4) ^ 0x80808080u, c % 4, 128.0f);
  const float d = extreme_of(x) / -127.0f, inverse = inverse_or_zero(d);
  uint32_t codes[32];
  float products[16], squares[16];
  for (uint32_t i = 0; i < 32; ++i) {
    const float scaled = clamped(x[i] * inverse, -127.0f, 127.0f);
    float level = levels[0];
    codes[i] = 0;
    for (uint32_t c = 1; c < 16; ++c)
      if (scaled >= 0.5f * (levels[c - 1] + levels[c])) {
        level = levels[c];
        codes[i] = c;
      }
    const float product = scaled * level, square = level * level;
    products[i % 16] = i < 16 ? product : products[i % 16] + product;
    squares[i % 16] = i < 16 ? square : squares[i % 16] + square;
  }
  block.halves[0] = scale_half(d * (tree_sum(products) / tree_sum(squares)));  // no level is 0
  put_nibbles(codes, 1, block);
}

/// Encodes 32 elements in a format of the cache that has blocks.
__device__ inline void encode_block(uint32_t format, uint64_t tables, const float (&x)[32], Block& block) {
  switch (format) {
    case kFormat_q4_0:
      return encode_symmetric<4>(x, block);
    case kFormat_q4_1:
      return encode_affine<4>(x, block);
    case kFormat_q5_0:
      return encode_symmetric<5>(x, block);
    case kFormat_q5_1:
      return encode_affine<5>(x, block);
    case kFormat_q8_0:
      return encode_q8_0(x, block);
    case kFormat_iq4_nl:
      return encode_iq4_nl(tables, x, block);
  }
}

}  // namespace tessera::cuda
