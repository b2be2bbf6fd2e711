// Code shared by the formats with 32 codes of four or five bits: q4_0 and q5_0 (symmetric), q4_1 and q5_1 (affine).
#pragma once

#include "tessera/quant/format.h"
#include "tessera/quant/formats/compat_search.h"
#include "tessera/quant/formats/scale_search.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

template <typename Block>
inline constexpr bool kHasFifthBits = requires(Block block) {
  block.qh;
};

template <typename Block>
void store_codes(const I32x16 (&codes)[32], int n_blocks, Block* blocks) {
  I32x16 words[4];
  pack_nibbles(codes, words);
  for (int b = 0; b < n_blocks; ++b) unload_words(words, b, blocks[b].qs);
  if constexpr (kHasFifthBits<Block>) {
    const I32x16 fifth[1] = {pack_fifth_bits(codes)};
    for (int b = 0; b < n_blocks; ++b) unload_words(fifth, b, blocks[b].qh);
  }
}

/// The codes of elements j and j + 16.
struct CodePair {
  int first, second;
};
template <typename Block>
CodePair code_pair(const Block& block, int j) {
  CodePair pair = {block.qs[j] & 15, block.qs[j] >> 4};
  if constexpr (kHasFifthBits<Block>) {
    pair.first |= ((block.qh[j / 8] >> j % 8) & 1) << 4;
    pair.second |= ((block.qh[2 + j / 8] >> j % 8) & 1) << 4;
  }
  return pair;
}

/// value = d * (code - kHalf), where kHalf is half the number of codes. The search tries scales around both ends of the
/// range of codes, because d may have either sign.
template <typename Block, typename Levels, int kHalf>
struct SymmetricFormat {
  static constexpr int kElements = Block::kElements;

  static void store_blocks(F32x16 d, const I32x16 (&codes)[kElements], int n_blocks, Block* blocks) {
    for (int b = 0; b < n_blocks; ++b) blocks[b].d = compat_f16(d[b]);
    store_codes(codes, n_blocks, blocks);
  }

  static void encode_blocks(const float* x, const float* weights, int n_blocks, Block* blocks) {
    Group<kElements> group;
    load_group(x, weights, n_blocks, group);
    const F32x16 d = round_f16(search_scale<Levels>(group));
    I32x16 codes[kElements];
    symmetric_codes<Levels>(group.x, d, kHalf, codes);
    store_blocks(d, codes, n_blocks, blocks);
  }

  /// ggml's rule without an imatrix: d = extreme value / -kHalf, codes truncated.
  static void encode_blocks_by_rule(const float* from, const float* /*weights*/, int n_blocks, Block* blocks) {
    constexpr float kTop = kHalf;
    F32x16 x[kElements];
    load_blocks(from, n_blocks, x);
    const F32x16 d = extreme_value(x) / -kTop, inverse = inverse_or_zero(d);
    I32x16 codes[kElements];
    for (int i = 0; i < kElements; ++i)
      codes[i] = to_i32(clamp(x[i] * inverse + (kTop + 0.5f), 0.0f, 2.0f * kTop - 1.0f));
    store_blocks(d, codes, n_blocks, blocks);
  }

  static void encode_blocks_by_imatrix(const float* x, const float* importance, float variance, int n_blocks,
                                       Block* blocks) {
    Group<kElements> group;
    load_compat_group(x, importance, n_blocks, broadcast(variance), group);
    I32x16 codes[kElements];
    const F32x16 d = compat_symmetric_codes(group, static_cast<float>(kHalf), codes);
    store_blocks(d, codes, n_blocks, blocks);
  }

  static void decode_block(const Block& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < 16; ++j) {
      const auto [first, second] = code_pair(block, j);
      out[j] = d * static_cast<float>(first - kHalf);
      out[j + 16] = d * static_cast<float>(second - kHalf);
    }
  }
};

/// value = d * code + m, codes 0 to kLargest. The search allows any sign of m, as the format does; ggml's imatrix
/// search clamps m to 0 or less.
template <typename Block, int kLargest>
struct AffineFormat {
  static constexpr int kElements = Block::kElements;
  static constexpr float kTop = kLargest;
  static constexpr AffineSteps kSteps = {.first = -0.9f, .step = 0.2f, .count = 14, .refits = 2};

  static void store_blocks(AffineScale scale, const I32x16 (&codes)[kElements], int n_blocks, Block* blocks) {
    for (int b = 0; b < n_blocks; ++b) {
      blocks[b].d = compat_f16(scale.d[b]);
      blocks[b].m = compat_f16(scale.m[b]);
    }
    store_codes(codes, n_blocks, blocks);
  }

  static void encode_blocks(const float* x, const float* weights, int n_blocks, Block* blocks) {
    Group<kElements> group;
    load_group(x, weights, n_blocks, group);
    const AffineScale scale = search_affine(group, kTop, kSteps);
    I32x16 codes[kElements];
    affine_codes(group.x, scale, kTop, codes);
    store_blocks(scale, codes, n_blocks, blocks);
  }

  /// ggml's rule without an imatrix: divides the range of values into kLargest parts.
  static void encode_blocks_by_rule(const float* from, const float* /*weights*/, int n_blocks, Block* blocks) {
    F32x16 x[kElements];
    load_blocks(from, n_blocks, x);
    F32x16 low = x[0], high = x[0];
    for (int i = 1; i < kElements; ++i) low = min(x[i], low), high = max(x[i], high);
    const F32x16 d = (high - low) / kTop, inverse = inverse_or_zero(d);
    I32x16 codes[kElements];
    for (int i = 0; i < kElements; ++i) codes[i] = to_i32(clamp((x[i] - low) * inverse + 0.5f, 0.0f, kTop));
    store_blocks({d, low}, codes, n_blocks, blocks);
  }

  static void encode_blocks_by_imatrix(const float* x, const float* importance, float variance, int n_blocks,
                                       Block* blocks) {
    Group<kElements> group;
    load_compat_group(x, importance, n_blocks, broadcast(variance), group);
    AffineScale scale;
    I32x16 codes[kElements];
    scale.d = compat_affine_codes(group, kTop, scale.m, codes);
    store_blocks(scale, codes, n_blocks, blocks);
  }

  static void decode_block(const Block& block, float* out) {
    const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
    for (int j = 0; j < 16; ++j) {
      const auto [first, second] = code_pair(block, j);
      out[j] = d * static_cast<float>(first) + m;
      out[j + 16] = d * static_cast<float>(second) + m;
    }
  }
};

template <typename Block, typename Encoder>
void encode_row_compat(const float* x, const float* importance, int64_t n, void* row) {
  if (importance == nullptr) return encode_groups<Block, Encoder::encode_blocks_by_rule>(x, nullptr, n, row);
  encode_compat_groups<Block, Encoder::encode_blocks_by_imatrix>(x, importance, n, row);
}

/// The Format of one of the encoders above.
template <typename Block, typename Encoder>
constexpr Format nibble_format(BlockFault (*first_fault)(const void* blocks, int64_t n)) {
  return {decode_blocks<Block, Encoder::decode_block>, encode_groups<Block, Encoder::encode_blocks>,
          encode_row_compat<Block, Encoder>, first_fault};
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
