// BlockDot of int8_dot.h for AVX2. vpmaddubsw adds pairs of products in int16, which must not saturate. Widening the
// pairs to int32 takes two more instructions, so formats with few bits add up a whole dot product in int16.
#pragma once

#include "tessera/cpu/kernels/int8_dot_avx2.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// 1 panel (two vectors) x 4 tokens.
inline constexpr int kInt8Tokens = 4;
inline constexpr int kInt8Panels = 1;
inline constexpr int kInt8PanelTokens = kInt8Tokens;
inline constexpr int kInt8Unroll = 4;

/// Keeps the compiler from reordering the additions of an unrolled loop: GCC 12 would compute all products first, and
/// spill them. That takes 1.5 times as long.
inline void keep_order(__m256i& lo, __m256i& hi) { __asm__ volatile("" : "+x"(lo), "+x"(hi)); }

/// The sums of adjacent 16-bit lanes.
inline __m256i sums_of_pairs(__m256i words) { return _mm256_madd_epi16(words, _mm256_set1_epi16(1)); }

// Products of codes and scales would not fit in 16-bit sums.
inline constexpr bool kUnpacksProducts = false;

/// Each lane holds its factor twice, as int16.
using Factors = U8x64;
inline Factors make_factors(I32x16 lanes) { return both16(lanes); }

/// How many products of codes and activations are summed in int16.
enum class DotRange {
  centered,     // all of a dot product, minus a multiple of the sum of the activations
  one_pair,     // one pair: 2 * 129 * 127 = 32766
  signs_moved,  // one pair if the sign of code - 128 is moved to the activation: 2 * 128 * 127 = 32512
};

/// The value that is subtracted from codes. Formats with minima have no offset: their codes are centered only if they
/// are too large for int16 otherwise.
template <class Block>
constexpr int center_of() {
  constexpr int kSteps = 8 / Block::kScales;
  if (Block::kMins == 0) return Block::kOffset;
  return 2 * Block::kMaxCode * 127 * kSteps <= 32767 ? 0 : (Block::kMaxCode + 1) / 2;
}

template <class Block>
constexpr DotRange dot_range() {
  constexpr int kSteps = 8 / Block::kScales, kCenter = center_of<Block>();
  constexpr int kMagnitude = kCenter > Block::kMaxCode - kCenter ? kCenter : Block::kMaxCode - kCenter;
  if (2 * Block::kMaxCode * 127 > 32767) return DotRange::signs_moved;
  return 2 * kMagnitude * 127 * kSteps <= 32767 ? DotRange::centered : DotRange::one_pair;
}

template <class Block, DotRange kRange = dot_range<Block>()>
struct BlockDot;

/// Intermediate sums of codes may exceed int16 and wrap around. The final sums of code - center do not, so they are
/// exact.
template <class Block>
struct BlockDot<Block, DotRange::centered> {
  static constexpr int kCenter = center_of<Block>();
  static constexpr StartKind kStart = kCenter == 0 ? StartKind::none : StartKind::pairs;
  static constexpr int kFactor = -kCenter;
  __m256i lo, hi;  // int16

  void start(const uint8_t* word) { lo = hi = start_of<kStart>(word); }
  void add(U8x64 codes, I8x4 a) {
    lo = _mm256_add_epi16(lo, _mm256_maddubs_epi16(codes.lo, a.v));
    hi = _mm256_add_epi16(hi, _mm256_maddubs_epi16(codes.hi, a.v));
    keep_order(lo, hi);
  }
  F32x16 finish(const uint8_t* word) const {
    __m256i lo_sums = sums_of_pairs(lo), hi_sums = sums_of_pairs(hi);
    if constexpr (Block::kMins > 0 && kCenter > 0) {
      const __m256i start = sums_of_pairs(I8x4::load(word).v);
      lo_sums = _mm256_sub_epi32(lo_sums, start);
      hi_sums = _mm256_sub_epi32(hi_sums, start);
    }
    return {_mm256_cvtepi32_ps(lo_sums), _mm256_cvtepi32_ps(hi_sums)};
  }
  /// Widens the sums by the instruction that multiplies them.
  I32x16 scaled(Factors factors) const {
    static_assert(Block::kMins == 0 || kCenter == 0);
    return {_mm256_madd_epi16(lo, factors.lo), _mm256_madd_epi16(hi, factors.hi)};
  }
};

template <class Block>
struct BlockDot<Block, DotRange::one_pair> : Int32Start<Block> {
  __m256i lo, hi;  // int32

  void start(const uint8_t* word) { lo = hi = start_of<BlockDot::kStart>(word); }
  void add(U8x64 codes, I8x4 a) {
    lo = _mm256_add_epi32(lo, sums_of_pairs(_mm256_maddubs_epi16(codes.lo, a.v)));
    hi = _mm256_add_epi32(hi, sums_of_pairs(_mm256_maddubs_epi16(codes.hi, a.v)));
    keep_order(lo, hi);
  }
  F32x16 finish(const uint8_t* /*word*/) const { return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)}; }
};

template <class Block>
struct BlockDot<Block, DotRange::signs_moved> {
  static constexpr int kFactor = 128 - Block::kOffset;
  static constexpr StartKind kStart = kFactor == 0 ? StartKind::none : StartKind::whole;
  static_assert(Block::kMins == 0);
  __m256i lo, hi;  // int32

  void start(const uint8_t* word) { lo = hi = start_of<kStart>(word); }
  void add(U8x64 codes, I8x4 a) {
    lo = _mm256_add_epi32(lo, products(codes.lo, a.v));
    hi = _mm256_add_epi32(hi, products(codes.hi, a.v));
    keep_order(lo, hi);
  }
  F32x16 finish(const uint8_t* /*word*/) const { return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)}; }

 private:
  static __m256i products(__m256i codes, __m256i a) {
    const __m256i w = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
    return sums_of_pairs(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)));
  }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
