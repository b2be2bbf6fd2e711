// int8_dot.h for AVX-512 with VNNI: vpdpbusd adds four products per lane to an int32 accumulator.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "tessera/cpu/kernels/int8_factors.h"
#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// 2 panels x 6 tokens: 12 int and 12 float accumulators, 4 weight and 2 activation vectors use 30 of 32 registers. One
// panel x 12 tokens has the same accumulators.
inline constexpr int kInt8Tokens = 6;
inline constexpr int kInt8Panels = 2;
inline constexpr int kInt8PanelTokens = 12;
inline constexpr int kInt8Unroll = 4;

struct U8x64 {
  __m512i v;

  static U8x64 load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  void store(uint8_t* p) const { _mm512_storeu_si512(p, v); }
};

inline U8x64 operator&(U8x64 x, int byte) { return {_mm512_and_si512(x.v, _mm512_set1_epi8(static_cast<char>(byte)))}; }
inline U8x64 and16(U8x64 x, int word) { return {_mm512_and_si512(x.v, _mm512_set1_epi16(static_cast<int16_t>(word)))}; }
inline U8x64 broadcast_u8(int byte) { return {_mm512_set1_epi8(static_cast<char>(byte))}; }
inline U8x64 operator|(U8x64 x, U8x64 y) { return {_mm512_or_si512(x.v, y.v)}; }
inline U8x64 add(U8x64 x, U8x64 y) { return {_mm512_add_epi8(x.v, y.v)}; }
inline U8x64 shift_right(U8x64 x, int n) { return {_mm512_srl_epi16(x.v, _mm_cvtsi32_si128(n))}; }
inline U8x64 shift_left(U8x64 x, int n) { return {_mm512_sll_epi16(x.v, _mm_cvtsi32_si128(n))}; }
inline U8x64 low_nibbles(const uint8_t* p) { return U8x64::load(p) & 0x0f; }
inline U8x64 high_nibbles(const uint8_t* p) { return U8x64{_mm512_srli_epi16(_mm512_loadu_si512(p), 4)} & 0x0f; }
inline U8x64 add_where(U8x64 x, uint64_t mask, int byte) {
  return {_mm512_mask_add_epi8(x.v, mask, x.v, _mm512_set1_epi8(static_cast<char>(byte)))};
}
inline U8x64 add_if_bit(U8x64 x, U8x64 plane, int bit, int byte) {
  return add_where(x, _mm512_test_epi8_mask(plane.v, _mm512_set1_epi8(static_cast<char>(1 << bit))), byte);
}
inline U8x64 lookup(U8x64 x, const uint8_t* table) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), x.v)};
}
inline U8x64 multiply16(U8x64 x, U8x64 y) { return {_mm512_mullo_epi16(x.v, y.v)}; }
inline U8x64 trits(U8x64 x) {
  const __m512i one = _mm512_set1_epi8(1);
  const __m512i first = _mm512_maskz_mov_epi8(_mm512_cmpge_epu8_mask(x.v, _mm512_set1_epi8(86)), one);
  const __mmask64 second = _mm512_cmpge_epu8_mask(x.v, _mm512_set1_epi8(static_cast<char>(171)));
  return {_mm512_mask_add_epi8(first, second, first, one)};
}

inline I32x16 load_u8(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline I32x16 load_i8(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline I32x16 load_u4(const uint8_t* p, int shift) {
  return {_mm512_and_si512(_mm512_srl_epi32(load_u8(p).v, _mm_cvtsi32_si128(shift)), _mm512_set1_epi32(15))};
}
inline I32x16 add_where(I32x16 x, uint16_t mask, int value) {
  return {_mm512_mask_add_epi32(x.v, mask, x.v, _mm512_set1_epi32(value))};
}
inline U8x64 both16(I32x16 x) {
  return {_mm512_or_si512(_mm512_slli_epi32(x.v, 16), _mm512_and_si512(x.v, _mm512_set1_epi32(0xffff)))};
}
inline F32x16 powers_of_two(I32x16 e) {
  const __m512i subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x200000), e.v);
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e.v, _mm512_set1_epi32(1)), 23);
  const __mmask16 is_small = _mm512_cmplt_epi32_mask(e.v, _mm512_set1_epi32(2));
  return {_mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, is_small, subnormal))};
}
inline F32x16 halves_of_e4m3(I32x16 x) {
  const __m512i bits = _mm512_slli_epi32(_mm512_and_si512(x.v, _mm512_set1_epi32(0x7f)), 20);
  const __m512i normal = _mm512_add_epi32(bits, _mm512_set1_epi32(119 << 23));
  const __m512 one_more = _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(120 << 23)));
  const __mmask16 is_subnormal = _mm512_cmplt_epi32_mask(bits, _mm512_set1_epi32(1 << 23));
  const __m512 value = _mm512_mask_sub_ps(_mm512_castsi512_ps(normal), is_subnormal, one_more, _mm512_set1_ps(0x1p-7f));
  return {_mm512_maskz_mov_ps(_mm512_cmpneq_epi32_mask(x.v, _mm512_set1_epi32(0x7f)), value)};
}

/// words[i] = grid[index[i]] for indices of kBits bits. A permutation uses the low six bits, a tree of blends the
/// others. Two vectors at a time share the loads of the grid, which would otherwise limit the speed of large grids.
template <int kBits>
[[gnu::always_inline]] inline void look_up_words(const uint16_t* grid, const __m512i (&index)[2],
                                                 const __mmask32 (&bits)[2][12], __m512i (&words)[2]) {
  if constexpr (kBits == 6) {
    const __m512i low = _mm512_loadu_si512(grid), high = _mm512_loadu_si512(grid + 32);
    for (int i = 0; i < 2; ++i) words[i] = _mm512_permutex2var_epi16(low, index[i], high);
  } else {
    __m512i upper[2];
    look_up_words<kBits - 1>(grid, index, bits, words);
    look_up_words<kBits - 1>(grid + (1 << (kBits - 1)), index, bits, upper);
    for (int i = 0; i < 2; ++i) words[i] = _mm512_mask_mov_epi16(words[i], bits[i][kBits - 1], upper[i]);
  }
}
template <int kBits>
[[gnu::always_inline]] inline void look_up_points(const uint16_t* grid, const uint8_t* indices, U8x64 (&nibbles)[4]) {
  const auto load_mask = [](const uint8_t* p) {
    uint32_t mask;
    memcpy(&mask, p, 4);
    return mask;
  };
  __m512i index[2], words[2];
  __mmask32 bits[2][12];
  for (int i = 0; i < 2; ++i) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices + 32 * i));
    index[i] = _mm512_cvtepu8_epi16(low);
    bits[i][6] = _mm256_test_epi8_mask(low, _mm256_set1_epi8(64));
    bits[i][7] = _mm256_movepi8_mask(low);
    for (int bit = 8; bit < kBits; ++bit) bits[i][bit] = load_mask(indices + 8 * bit + 4 * i);
  }
  look_up_words<kBits>(grid, index, bits, words);
  // Each word twice; then the second copy is shifted by a nibble.
  const __m512i first = _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100);
  const __m512i second = _mm512_add_epi8(first, _mm512_set1_epi8(2));
  const __m512i down = _mm512_set1_epi32(4 << 16);
  for (int i = 0; i < 4; ++i) {
    const __m512i twice = _mm512_shuffle_epi8(words[i / 2], i % 2 == 0 ? first : second);
    nibbles[i] = {_mm512_srlv_epi16(twice, down)};
  }
}

struct I8x4 {
  __m512i v;

  static I8x4 load(const uint8_t* p) {
    int32_t word;
    memcpy(&word, p, 4);
    return {_mm512_set1_epi32(word)};
  }
};

inline void store_bytes(I32x16 x, int8_t* p) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}
inline I32x16 add(I32x16 x, I32x16 y) { return {_mm512_add_epi32(x.v, y.v)}; }

template <class Block>
struct BlockDot : Int32Start<Block> {
  __m512i sum;

  void start(const uint8_t* word) {
    if constexpr (BlockDot::kStart == StartKind::none)
      sum = _mm512_setzero_si512();
    else
      sum = I8x4::load(word).v;
  }
  void add(U8x64 codes, I8x4 a) { sum = _mm512_dpbusd_epi32(sum, codes.v, a.v); }
  F32x16 finish(const uint8_t* /*word*/) const { return {_mm512_cvtepi32_ps(sum)}; }
  I32x16 scaled(Factors factors) const { return {_mm512_mullo_epi32(sum, factors.v)}; }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
