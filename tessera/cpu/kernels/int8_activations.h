// Activations as the int8 kernels read them. Used by matmul_int8.h.
//
// Tokens lie in tiles of kInt8Tokens (the last tile has what is left). A tile of T tokens is its groups one
// after the other; a group is T float scales, then per 32-column block T int32 seeds and eight times T x 4
// codes.
//
// A group is x = d * q with d = max|x| / 127 and q = x * (1 / d) rounded half to even. Two exceptions:
//   max|x| too small for 1 / d to be finite (d below FLT_MIN), or zero: d = 0, q = 0;
//   an infinity or NaN in the group: d = NaN, q = 0, so that all outputs of the token are NaN.
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/int8_dot.h"
#include "tessera/cpu/kernels/kernels.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

inline constexpr int kBlockColumns = 32;

/// Columns that share an activation scale: the largest of max_group, its half, ... that divides k, a multiple of 32.
/// Larger groups cost fewer float operations per product, smaller ones follow outliers more closely.
inline int64_t activation_group(const ActivationShape& shape) {
  int64_t group = shape.max_group;
  while (shape.k % group != 0) group /= 2;
  return group;
}

/// What a weight format needs to know of a block's codes besides themselves.
struct BlockSums {
  int count;       // words per block and token: 1, the sum over 32 columns; 2, one per 16
  bool as_floats;  // the sums themselves; else factor times them as int32, where the dot products start
  int factor;
  constexpr size_t block_bytes() const { return static_cast<size_t>(4 * count + kBlockColumns); }  // of a token
};

/// Bytes that n_columns (whole groups) take per token.
inline size_t activation_bytes_per_token(BlockSums sums, int64_t group, int64_t n_columns) {
  return 4 * static_cast<size_t>(n_columns / group) +
         sums.block_bytes() * static_cast<size_t>(n_columns / kBlockColumns);
}

template <BlockSums kSums>
size_t activation_bytes(const ActivationShape& shape) {
  const size_t token_bytes = activation_bytes_per_token(kSums, activation_group(shape), shape.k);
  return (static_cast<size_t>(shape.n_tokens) * token_bytes + 63) / 64 * 64;
}

inline float load_f32(const uint8_t* p) {
  float f;
  memcpy(&f, p, 4);
  return f;
}

/// The scale of a group of n values and the factor 1 / scale (0 where all codes are to be 0).
struct GroupScale {
  float scale, inverse;
};
inline GroupScale group_scale(const float* x, int64_t n) {
  // The order of magnitudes is that of their bits, with infinity and NaN above all numbers.
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, x + i, 4);
    bits &= 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  if (largest >= 0x7f800000u) return {__builtin_nanf(""), 0.0f};
  float magnitude;
  memcpy(&magnitude, &largest, 4);
  const float scale = magnitude / 127.0f;
  return scale < __FLT_MIN__ ? GroupScale{0.0f, 0.0f} : GroupScale{scale, 1.0f / scale};
}

/// 16 codes of x * inverse; returns their sum.
inline int32_t quantize_half(const float* x, float inverse, int8_t* codes) {
  int32_t sum = 0;
  for (int i = 0; i < kBlockColumns / 2; ++i) {
    // |x * inverse| < 128: adding 1.5 * 2^23 leaves no fraction bits and rounds half to even.
    const float shifted = x[i] * inverse + 0x1.8p23f;
    int32_t bits;
    memcpy(&bits, &shifted, 4);
    const int32_t code = bits - 0x4b400000;
    codes[i] = static_cast<int8_t>(code);
    sum += code;
  }
  return sum;
}

/// The word that tells a sum of codes, as BlockSums says.
template <BlockSums kSums>
uint32_t sum_word(int32_t sum) {
  if constexpr (!kSums.as_floats) return static_cast<uint32_t>(kSums.factor * sum);
  const auto as_float = static_cast<float>(sum);
  uint32_t word;
  memcpy(&word, &as_float, 4);
  return word;
}

/// Packs token x into place t of a tile of n_tile tokens.
template <BlockSums kSums>
void quantize_token(const float* x, int64_t k, int64_t group, int64_t n_tile, int64_t t, uint8_t* tile) {
  for (int64_t column = 0; column < k; column += group) {
    const GroupScale g = group_scale(x + column, group);
    memcpy(tile + 4 * t, &g.scale, 4);
    tile += 4 * n_tile;
    for (int64_t b = 0; b < group; b += kBlockColumns) {
      int8_t codes[kBlockColumns] = {};
      int32_t sums[2] = {};
      if (g.inverse != 0.0f)
        for (int half = 0; half < 2; ++half)
          sums[half] = quantize_half(x + column + b + 16 * half, g.inverse, codes + 16 * half);
      if constexpr (kSums.count == 1) sums[0] += sums[1];
      for (int i = 0; i < kSums.count; ++i) {
        const uint32_t word = sum_word<kSums>(sums[i]);
        memcpy(tile + 4 * (i * n_tile + t), &word, 4);
      }
      tile += 4 * kSums.count * n_tile;
      for (int v = 0; v < 8; ++v) memcpy(tile + 4 * (v * n_tile + t), codes + 4 * v, 4);
      tile += kBlockColumns * n_tile;
    }
  }
}

/// PanelFormat::pack_activations: one function, and so shared activations, for all formats of the same sums.
template <BlockSums kSums>
void quantize_activations(const float* x, size_t x_stride, const ActivationShape& shape, int64_t begin, int64_t end,
                          void* packed) {
  const int64_t group = activation_group(shape);
  const size_t token_bytes = activation_bytes_per_token(kSums, group, shape.k);
  for (int64_t t = begin; t < end; ++t) {
    const auto* token =
        reinterpret_cast<const float*>(reinterpret_cast<const uint8_t*>(x) + static_cast<size_t>(t) * x_stride);
    const int64_t first = t / kInt8Tokens * kInt8Tokens;
    const int64_t n_tile = shape.n_tokens - first < kInt8Tokens ? shape.n_tokens - first : kInt8Tokens;
    quantize_token<kSums>(token, shape.k, group, n_tile, t - first,
                          static_cast<uint8_t*>(packed) + static_cast<size_t>(first) * token_bytes);
  }
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
