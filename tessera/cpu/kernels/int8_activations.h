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

/// Transposes the lanes of 16 vectors of integers.
inline void transpose(I32x16* rows) {
  F32x16 floats[kLanes];
  for (int i = 0; i < kLanes; ++i) floats[i] = as_floats(rows[i]);
  transpose(floats);
  for (int i = 0; i < kLanes; ++i) rows[i] = as_bits(floats[i]);
}

/// The next blocks of a token: at most 16, so that what they have in common is computed with one block per lane.
struct Blocks {
  static constexpr int kMost = kLanes;

  const float* x;
  int n;

  F32x16 first_half(int i) const { return F32x16::load(x + i * kBlockColumns); }
  F32x16 second_half(int i) const { return F32x16::load(x + i * kBlockColumns + kLanes); }
};

/// The scales of the groups of some blocks, and the factors 1 / scale (0 if all codes must be 0).
struct GroupScales {
  float scale[Blocks::kMost], inverse[Blocks::kMost];  // by block; the same for all blocks of a group

  /// The blocks are whole groups.
  GroupScales(const Blocks& blocks, int group_blocks) {
    // Bits of magnitudes are ordered like the numbers, with infinity and NaN above all of them.
    const auto bits = [](F32x16 x) { return as_bits(abs(x)); };
    I32x16 rows[kLanes];
    for (int i = 0; i < kLanes; ++i)
      rows[i] = i < blocks.n ? max(bits(blocks.first_half(i)), bits(blocks.second_half(i))) : I32x16::zero();
    transpose(rows);
    I32x16 highest = rows[0];
    for (int i = 1; i < kLanes; ++i) highest = max(highest, rows[i]);
    alignas(64) uint32_t largest[kLanes];
    highest.store(largest);
    for (int begin = 0; group_blocks > 1 && begin < blocks.n; begin += group_blocks) {
      uint32_t of_group = 0;
      for (int i = begin; i < begin + group_blocks; ++i) of_group = largest[i] > of_group ? largest[i] : of_group;
      for (int i = begin; i < begin + group_blocks; ++i) largest[i] = of_group;
    }
    for (int i = 0; i < kLanes; ++i) {
      float magnitude;
      memcpy(&magnitude, &largest[i], 4);
      const float quotient = magnitude / 127.0f, reciprocal = 1.0f / quotient;
      const bool is_number = largest[i] < 0x7f800000u, is_small = quotient < __FLT_MIN__;
      scale[i] = is_number ? (is_small ? 0.0f : quotient) : __builtin_nanf("");
      inverse[i] = is_number && !is_small ? reciprocal : 0.0f;
    }
  }
};

/// Whether a format needs the sums of 16 columns, and not only those of 32.
constexpr bool has_halves(BlockSums sums) { return sums.n_floats == 2 || sums.codes.n == 2 || sums.levels.n == 2; }

/// The codes of x * inverse for some blocks, and their sums.
template <bool kHalves>
struct BlockCodes {
  int8_t codes[Blocks::kMost][kBlockColumns];
  // Of the first and second 16 columns (or the first of all 32): over columns 0 and 1 of each four, and over 2 and 3.
  alignas(64) int32_t sums[2][2][Blocks::kMost];

  BlockCodes(const Blocks& blocks, const float* inverse) {
    I32x16 rows[1 + kHalves][kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const bool is_used = i < blocks.n && inverse[i] != 0.0f;
      const F32x16 factor = F32x16::broadcast(inverse[i]);
      const I32x16 first = is_used ? code(blocks.first_half(i), factor) : I32x16::zero();
      const I32x16 second = is_used ? code(blocks.second_half(i), factor) : I32x16::zero();
      store_bytes(first, codes[i]);
      store_bytes(second, codes[i] + kLanes);
      rows[0][i] = kHalves ? first : add(first, second);
      if constexpr (kHalves) rows[1][i] = second;
    }
    for (int half = 0; half < 1 + kHalves; ++half) {
      transpose(rows[half]);
      for (int pair = 0; pair < 2; ++pair) {
        I32x16 sum = I32x16::zero();
        for (int lane = 2 * pair; lane < kLanes; lane += 4) sum = add(sum, add(rows[half][lane], rows[half][lane + 1]));
        sum.store(sums[half][pair]);
      }
    }
  }

  /// Block b's sum by columns of each four (index 0 or 1) over part `i` of n: all 32 columns, or 16 of them.
  int32_t sum_of(int b, int i, int n, int pair) const {
    return kHalves && n == 1 ? sums[0][pair][b] + sums[1][pair][b] : sums[i][pair][b];
  }
  /// Both.
  int32_t sum_of(int b, int i, int n) const { return sum_of(b, i, n, 0) + sum_of(b, i, n, 1); }

 private:
  static I32x16 code(F32x16 x, F32x16 inverse) {
    // |x * inverse| < 128, so adding 1.5 * 2^23 leaves no fraction bits and rounds half to even.
    const F32x16 shifted = add(mul(x, inverse), F32x16::broadcast(0x1.8p23f));
    return add(as_bits(shifted), I32x16::broadcast(-0x4b400000));
  }
};

/// Word i of the starts of block b.
template <DotStarts kStarts, bool kHalves>
uint32_t start_word(const BlockCodes<kHalves>& blocks, int b, int i) {
  if constexpr (kStarts.kind == StartKind::whole)
    return static_cast<uint32_t>(kStarts.factor * blocks.sum_of(b, i, kStarts.n));
  const int32_t first = kStarts.factor * blocks.sum_of(b, i, kStarts.n, 0);
  const int32_t second = kStarts.factor * blocks.sum_of(b, i, kStarts.n, 1);
  return static_cast<uint32_t>(first & 0xffff) | static_cast<uint32_t>(second) << 16;
}

/// Word i of block b.
template <BlockSums kSums, bool kHalves>
uint32_t sum_word(const BlockCodes<kHalves>& blocks, int b, int i) {
  if (i < kSums.n_floats) {
    const auto sum = static_cast<float>(blocks.sum_of(b, i, kSums.n_floats));
    uint32_t word;
    memcpy(&word, &sum, 4);
    return word;
  }
  i -= kSums.n_floats;
  return i < kSums.codes.n ? start_word<kSums.codes>(blocks, b, i)
                           : start_word<kSums.levels>(blocks, b, i - kSums.codes.n);
}

/// Packs token x as token t of a tile of n_tile tokens.
template <BlockSums kSums>
void quantize_token(const float* x, int64_t k, int64_t group, int64_t n_tile, int64_t t, uint8_t* tile) {
  const auto group_blocks = static_cast<int>(group / kBlockColumns);
  const auto stride = static_cast<size_t>(4 * n_tile);  // from a word to the next one of the token
  uint8_t* word = tile + 4 * t;
  const auto put = [&](const void* from) {
    memcpy(word, from, 4);
    word += stride;
  };
  for (int64_t column = 0; column < k; column += Blocks::kMost * kBlockColumns) {
    const int64_t left = (k - column) / kBlockColumns;
    const Blocks blocks{.x = x + column, .n = left < Blocks::kMost ? static_cast<int>(left) : Blocks::kMost};
    const GroupScales scales(blocks, group_blocks);
    const BlockCodes<has_halves(kSums)> codes(blocks, scales.inverse);
    uint32_t words[kSums.n_words() + 1][Blocks::kMost];
    for (int i = 0; i < kSums.n_words(); ++i)
      for (int b = 0; b < Blocks::kMost; ++b) words[i][b] = sum_word<kSums>(codes, b, i);
    for (int begin = 0; begin < blocks.n; begin += group_blocks) {
      put(&scales.scale[begin]);
      for (int b = begin; b < begin + group_blocks; ++b) {
        for (int i = 0; i < kSums.n_words(); ++i) put(&words[i][b]);
        for (int v = 0; v < kBlockColumns / 4; ++v) put(codes.codes[b] + 4 * v);
      }
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
