// int8_dot.h for AVX2: vpmaddubsw adds pairs of products in int16, which must not saturate.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// 1 panel (two vectors) x 3 tokens: the float sums go to the stack once a block, still 4% faster than 2
// tokens.
inline constexpr int kInt8Tokens = 3;
inline constexpr int kInt8Panels = 1;
inline constexpr int kInt8DecodePanels = 2;
inline constexpr int kInt8Unroll = 1;  // unrolled, GCC sums in a tree and spills the leaves

struct U8x64 {
  __m256i lo, hi;

  static U8x64 load(const uint8_t* p) {
    const auto* q = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
  }
  void store(uint8_t* p) const {
    auto* q = reinterpret_cast<__m256i*>(p);
    _mm256_storeu_si256(q, lo);
    _mm256_storeu_si256(q + 1, hi);
  }
};

/// The low and the high nibbles of 64 bytes.
inline void nibbles(const uint8_t* p, U8x64& low, U8x64& high) {
  const __m256i mask = _mm256_set1_epi8(0x0f);
  const U8x64 packed = U8x64::load(p);
  low = {_mm256_and_si256(packed.lo, mask), _mm256_and_si256(packed.hi, mask)};
  high = {_mm256_and_si256(_mm256_srli_epi16(packed.lo, 4), mask),
          _mm256_and_si256(_mm256_srli_epi16(packed.hi, 4), mask)};
}

struct I8x4 {
  __m256i v;

  static I8x4 load(const uint8_t* p) {
    int32_t word;
    memcpy(&word, p, 4);
    return {_mm256_set1_epi32(word)};
  }
};

/// Small codes: all eight int16 sums of a block fit (8 * 2 * 15 * 127 = 30480), so widening is once per
/// block.
template <int kMaxCode>
struct BlockDot {
  static_assert(8 * 2 * kMaxCode * 127 <= 32767);
  static constexpr int kBias = 0;
  __m256i lo, hi;  // int16

  void start(const uint8_t* /*seed*/) { lo = hi = _mm256_setzero_si256(); }
  void add(U8x64 codes, I8x4 a) {
    lo = _mm256_add_epi16(lo, _mm256_maddubs_epi16(codes.lo, a.v));
    hi = _mm256_add_epi16(hi, _mm256_maddubs_epi16(codes.hi, a.v));
  }
  F32x16 finish(const uint8_t* seed) const {
    const __m256i ones = _mm256_set1_epi16(1), start = I8x4::load(seed).v;
    return {_mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(lo, ones), start)),
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(hi, ones), start))};
  }
};

/// Eight-bit codes: |w| times a with w's sign, w = code - 128; a pair is at most 2 * 128 * 127 = 32512.
template <>
struct BlockDot<255> {
  static constexpr int kBias = 128;
  __m256i lo, hi;  // int32

  void start(const uint8_t* seed) { lo = hi = I8x4::load(seed).v; }
  void add(U8x64 codes, I8x4 a) {
    lo = _mm256_add_epi32(lo, products(codes.lo, a.v));
    hi = _mm256_add_epi32(hi, products(codes.hi, a.v));
  }
  F32x16 finish(const uint8_t* /*seed*/) const { return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)}; }

 private:
  static __m256i products(__m256i codes, __m256i a) {
    const __m256i w = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
