// The layout of activations for the int8 kernels. Used by matmul_int8.h.
//
// Tokens are stored in tiles of kTokenTile (the last tile has the remaining tokens). A tile of T tokens consists of
// its groups. A group is T float scales, then for each 32-column block T words of each of its sums (BlockSums) and
// eight times T x 4 codes.
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

/// The number of columns that share an activation scale: the largest of max_group, its half, ... that divides k, which
/// is a multiple of 32. Larger groups need fewer float operations per product. Smaller groups are more accurate with
/// outliers.
inline int64_t activation_group(const ActivationShape& shape) {
  int64_t group = shape.max_group;
  while (shape.k % group != 0) group /= 2;
  return group;
}

/// The words from which the dot products of a block start: factor times the sum over 32 columns, or two over 16 each.
struct DotStarts {
  int n;  // 0, 1 or 2
  StartKind kind;
  int factor;
};

/// The sums of a block's activations that a weight format needs, in this order.
struct BlockSums {
  int n_floats;      // sums over 32 columns, or two over 16 each, as floats: the factors of minima
  DotStarts codes;   // of products with codes
  DotStarts levels;  // of products with levels (matmul_int8.h)
  constexpr int n_words() const { return n_floats + codes.n + levels.n; }                              // of a token
  constexpr size_t block_bytes() const { return static_cast<size_t>(4 * n_words() + kBlockColumns); }  // of a token
};

/// Bytes of n_columns (whole groups) per token.
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

/// The bits of the largest magnitude in a block. Bits of magnitudes are ordered like the numbers, with infinity and NaN
/// above all of them.
inline uint32_t largest_bits(const float* x) {
  uint32_t largest = 0;
  for (int i = 0; i < kBlockColumns; ++i) {
    uint32_t bits;
    memcpy(&bits, x + i, 4);
    bits &= 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

/// The scales of the groups of some blocks, and the factors 1 / scale (0 if all codes must be 0). All divisions are
/// done at once, because a single division takes as long as a block.
struct GroupScales {
  static constexpr int kBlocks = 16;
  float scale[kBlocks], inverse[kBlocks];  // by block; the same for all blocks of a group

  /// Computes the scales of n blocks from x on (whole groups).
  GroupScales(const float* x, int n, int group_blocks) {
    uint32_t largest[kBlocks] = {};
    for (int begin = 0; begin < n; begin += group_blocks) {
      uint32_t of_group = 0;
      for (int i = begin; i < begin + group_blocks; ++i) {
        const uint32_t bits = largest_bits(x + i * kBlockColumns);
        of_group = bits > of_group ? bits : of_group;
      }
      for (int i = begin; i < begin + group_blocks; ++i) largest[i] = of_group;
    }
    for (int i = 0; i < kBlocks; ++i) {
      float magnitude;
      memcpy(&magnitude, &largest[i], 4);
      const float quotient = magnitude / 127.0f, reciprocal = 1.0f / quotient;
      const bool is_number = largest[i] < 0x7f800000u, is_small = quotient < __FLT_MIN__;
      scale[i] = is_number ? (is_small ? 0.0f : quotient) : __builtin_nanf("");
      inverse[i] = is_number && !is_small ? reciprocal : 0.0f;
    }
  }
};

/// The codes of x * inverse for a block, and their sums.
struct BlockCodes {
  int8_t codes[kBlockColumns];
  int32_t sums[2][2];  // of the first and second 16 columns: over columns 0 and 1 of each four, and over 2 and 3

  BlockCodes(const float* x, float inverse) {
    int32_t wide[kBlockColumns];
    for (int i = 0; i < kBlockColumns; ++i) {
      // |x * inverse| < 128, so adding 1.5 * 2^23 leaves no fraction bits and rounds half to even.
      const float shifted = x[i] * inverse + 0x1.8p23f;
      int32_t bits;
      memcpy(&bits, &shifted, 4);
      wide[i] = inverse == 0.0f ? 0 : bits - 0x4b400000;
    }
    for (int i = 0; i < kBlockColumns; ++i) codes[i] = static_cast<int8_t>(wide[i]);
    for (int half = 0; half < 2; ++half) {
      int32_t by_column[4] = {};
      for (int i = 0; i < kBlockColumns / 2; ++i) by_column[i % 4] += wide[kBlockColumns / 2 * half + i];
      sums[half][0] = by_column[0] + by_column[1];
      sums[half][1] = by_column[2] + by_column[3];
    }
  }

  /// A sum by columns of each four (index 0 or 1) over part `i` of n: all 32 columns, or 16 of them.
  int32_t sum_of(int i, int n, int pair) const { return n == 1 ? sums[0][pair] + sums[1][pair] : sums[i][pair]; }
  /// Both.
  int32_t sum_of(int i, int n) const { return sum_of(i, n, 0) + sum_of(i, n, 1); }
};

/// Word i of the starts of a block.
template <DotStarts kStarts>
uint32_t start_word(const BlockCodes& block, int i) {
  if constexpr (kStarts.kind == StartKind::whole)
    return static_cast<uint32_t>(kStarts.factor * block.sum_of(i, kStarts.n));
  const int32_t first = kStarts.factor * block.sum_of(i, kStarts.n, 0);
  const int32_t second = kStarts.factor * block.sum_of(i, kStarts.n, 1);
  return static_cast<uint32_t>(first & 0xffff) | static_cast<uint32_t>(second) << 16;
}

/// Word i of a block.
template <BlockSums kSums>
uint32_t sum_word(const BlockCodes& block, int i) {
  if (i < kSums.n_floats) {
    const auto sum = static_cast<float>(block.sum_of(i, kSums.n_floats));
    uint32_t word;
    memcpy(&word, &sum, 4);
    return word;
  }
  i -= kSums.n_floats;
  return i < kSums.codes.n ? start_word<kSums.codes>(block, i) : start_word<kSums.levels>(block, i - kSums.codes.n);
}

/// Packs token x as token t of a tile of n_tile tokens.
template <BlockSums kSums>
void quantize_token(const float* x, int64_t k, int64_t group, int64_t n_tile, int64_t t, uint8_t* tile) {
  const auto group_blocks = static_cast<int>(group / kBlockColumns);
  for (int64_t column = 0; column < k;) {
    const int64_t left = (k - column) / kBlockColumns;
    const int n = left < GroupScales::kBlocks ? static_cast<int>(left) : GroupScales::kBlocks;
    const GroupScales scales(x + column, n, group_blocks);
    for (int i = 0; i < n; ++i, column += kBlockColumns) {
      if (i % group_blocks == 0) {
        memcpy(tile + 4 * t, &scales.scale[i], 4);
        tile += 4 * n_tile;
      }
      const BlockCodes block(x + column, scales.inverse[i]);
      for (int word = 0; word < kSums.n_words(); ++word) {
        const uint32_t value = sum_word<kSums>(block, word);
        memcpy(tile + 4 * (word * n_tile + t), &value, 4);
      }
      tile += 4 * kSums.n_words() * n_tile;
      for (int v = 0; v < 8; ++v) memcpy(tile + 4 * (v * n_tile + t), block.codes + 4 * v, 4);
      tile += kBlockColumns * n_tile;
    }
  }
}

/// PanelFormat::pack_activations. Formats with the same sums have the same function, and so share packed activations.
template <BlockSums kSums>
void quantize_activations(const float* x, size_t x_stride, const ActivationShape& shape, int64_t begin, int64_t end,
                          void* packed) {
  const int64_t group = activation_group(shape);
  const size_t token_bytes = activation_bytes_per_token(kSums, group, shape.k);
  for (int64_t t = begin; t < end; ++t) {
    const auto* token =
        reinterpret_cast<const float*>(reinterpret_cast<const uint8_t*>(x) + static_cast<size_t>(t) * x_stride);
    const int64_t first = t / kTokenTile * kTokenTile;
    const int64_t n_tile = shape.n_tokens - first < kTokenTile ? shape.n_tokens - first : kTokenTile;
    quantize_token<kSums>(token, shape.k, group, n_tile, t - first,
                          static_cast<uint8_t*>(packed) + static_cast<size_t>(first) * token_bytes);
  }
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
