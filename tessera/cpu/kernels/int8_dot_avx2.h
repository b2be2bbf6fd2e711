// int8_dot.h for AVX2 and AVX-VNNI. They differ in BlockDot only: int8_sums_*.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

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

inline __m256i splat8(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }

inline U8x64 operator&(U8x64 x, int byte) {
  return {_mm256_and_si256(x.lo, splat8(byte)), _mm256_and_si256(x.hi, splat8(byte))};
}
inline U8x64 and16(U8x64 x, int word) {
  const __m256i mask = _mm256_set1_epi16(static_cast<int16_t>(word));
  return {_mm256_and_si256(x.lo, mask), _mm256_and_si256(x.hi, mask)};
}
inline U8x64 broadcast_u8(int byte) { return {splat8(byte), splat8(byte)}; }
inline U8x64 operator|(U8x64 x, U8x64 y) { return {_mm256_or_si256(x.lo, y.lo), _mm256_or_si256(x.hi, y.hi)}; }
inline U8x64 add(U8x64 x, U8x64 y) { return {_mm256_add_epi8(x.lo, y.lo), _mm256_add_epi8(x.hi, y.hi)}; }
inline U8x64 shift_right(U8x64 x, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_srl_epi16(x.lo, count), _mm256_srl_epi16(x.hi, count)};
}
inline U8x64 shift_left(U8x64 x, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_sll_epi16(x.lo, count), _mm256_sll_epi16(x.hi, count)};
}
inline U8x64 low_nibbles(const uint8_t* p) { return U8x64::load(p) & 0x0f; }
inline U8x64 high_nibbles(const uint8_t* p) {
  const U8x64 x = U8x64::load(p);
  return U8x64{_mm256_srli_epi16(x.lo, 4), _mm256_srli_epi16(x.hi, 4)} & 0x0f;
}
/// A byte mask from bits: byte i is all ones if bit i is set.
inline __m256i bytes_of_mask(uint32_t mask) {
  const __m256i spread =
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  const __m256i own = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(mask)), spread), bit);
  return _mm256_cmpeq_epi8(own, bit);
}
inline U8x64 add_where(U8x64 x, uint64_t mask, int byte) {
  const __m256i lo = bytes_of_mask(static_cast<uint32_t>(mask)), hi = bytes_of_mask(static_cast<uint32_t>(mask >> 32));
  return add(x, U8x64{lo, hi} & byte);
}
inline U8x64 add_if_bit(U8x64 x, U8x64 plane, int bit, int byte) {
  const U8x64 own = plane & (1 << bit);
  const __m256i want = splat8(1 << bit);
  return add(x, U8x64{_mm256_cmpeq_epi8(own.lo, want), _mm256_cmpeq_epi8(own.hi, want)} & byte);
}
inline U8x64 lookup(U8x64 x, const uint8_t* table) {
  const __m256i entries = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(entries, x.lo), _mm256_shuffle_epi8(entries, x.hi)};
}
inline U8x64 multiply16(U8x64 x, U8x64 y) { return {_mm256_mullo_epi16(x.lo, y.lo), _mm256_mullo_epi16(x.hi, y.hi)}; }
inline U8x64 trits(U8x64 x) {
  const auto digit = [](__m256i v) {
    const __m256i from_86 = _mm256_cmpeq_epi8(_mm256_max_epu8(v, splat8(86)), v);
    const __m256i from_171 = _mm256_cmpeq_epi8(_mm256_max_epu8(v, splat8(171)), v);
    return _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_add_epi8(from_86, from_171));
  };
  return {digit(x.lo), digit(x.hi)};
}

inline I32x16 load_u8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
inline I32x16 load_i8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
inline I32x16 load_u4(const uint8_t* p, int shift) {
  const I32x16 x = load_u8(p);
  const __m128i count = _mm_cvtsi32_si128(shift);
  const __m256i mask = _mm256_set1_epi32(15);
  return {_mm256_and_si256(_mm256_srl_epi32(x.lo, count), mask), _mm256_and_si256(_mm256_srl_epi32(x.hi, count), mask)};
}
inline I32x16 add_where(I32x16 x, uint16_t mask, int value) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const auto added = [bit, value](__m256i v, int bits) {
    const __m256i own = _mm256_and_si256(_mm256_set1_epi32(bits), bit);
    return _mm256_add_epi32(v, _mm256_and_si256(_mm256_cmpeq_epi32(own, bit), _mm256_set1_epi32(value)));
  };
  return {added(x.lo, mask & 0xff), added(x.hi, mask >> 8)};
}
inline U8x64 both16(I32x16 x) {
  const auto doubled = [](__m256i v) {
    return _mm256_or_si256(_mm256_slli_epi32(v, 16), _mm256_and_si256(v, _mm256_set1_epi32(0xffff)));
  };
  return {doubled(x.lo), doubled(x.hi)};
}
inline F32x16 powers_of_two(I32x16 e) {
  const auto scale = [](__m256i v) {
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), v);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(v, _mm256_set1_epi32(1)), 23);
    const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), v);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, is_small));
  };
  return {scale(e.lo), scale(e.hi)};
}
inline F32x16 halves_of_e4m3(I32x16 x) {
  const auto scale = [](__m256i v) {
    const __m256i bits = _mm256_slli_epi32(_mm256_and_si256(v, _mm256_set1_epi32(0x7f)), 20);
    const __m256 normal = _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(119 << 23)));
    const __m256 one_more = _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(120 << 23)));
    const __m256 subnormal = _mm256_sub_ps(one_more, _mm256_set1_ps(0x1p-7f));
    const __m256i is_subnormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << 23), bits);
    const __m256 value = _mm256_blendv_ps(normal, subnormal, _mm256_castsi256_ps(is_subnormal));
    return _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(v, _mm256_set1_epi32(0x7f))), value);
  };
  return {scale(x.lo), scale(x.hi)};
}
/// Converts the indices of look_up_points() to words.
template <int kBits>
inline void load_indices(const uint8_t* indices, uint16_t (&words)[64]) {
  const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
  for (int i = 0; i < 4; ++i) {
    __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(indices + 16 * i)));
    for (int high = 8; high < kBits; ++high) {
      int16_t mask;
      memcpy(&mask, indices + 8 * high + 2 * i, 2);
      const __m256i is_set = _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16(mask), bit), bit);
      v = _mm256_or_si256(v, _mm256_and_si256(is_set, _mm256_set1_epi16(static_cast<int16_t>(1 << high))));
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(words + 16 * i), v);
  }
}
template <int kBits>
inline void look_up_points(const uint16_t* grid, const uint8_t* indices, U8x64 (&nibbles)[4]) {
  alignas(32) uint16_t index[64];
  load_indices<kBits>(indices, index);
  // Scalar loads, four points per register. A vector load would have to wait for the stores of single points.
  const auto four = [grid](const uint16_t* i) {
    return static_cast<int64_t>(grid[i[0]] | uint64_t{grid[i[1]]} << 16 | uint64_t{grid[i[2]]} << 32 |
                                uint64_t{grid[i[3]]} << 48);
  };
  // Each word twice; the second copy is shifted by a nibble.
  const __m256i first = _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5, 8,
                                         9, 8, 9, 12, 13, 12, 13);
  const __m256i second = _mm256_add_epi8(first, splat8(2));
  const auto spread = [](__m256i words, __m256i order) {
    const __m256i twice = _mm256_shuffle_epi8(words, order);
    return _mm256_blend_epi16(twice, _mm256_srli_epi16(twice, 4), 0xaa);
  };
  for (int i = 0; i < 4; i += 2) {
    const uint16_t* p = index + 16 * i;
    const __m256i lo = _mm256_setr_epi64x(four(p), four(p + 4), four(p + 8), four(p + 12));
    const __m256i hi = _mm256_setr_epi64x(four(p + 16), four(p + 20), four(p + 24), four(p + 28));
    nibbles[i] = {spread(lo, first), spread(hi, first)};
    nibbles[i + 1] = {spread(lo, second), spread(hi, second)};
  }
}

struct I8x4 {
  __m256i v;

  static I8x4 load(const uint8_t* p) {
    int32_t word;
    memcpy(&word, p, 4);
    return {_mm256_set1_epi32(word)};
  }
};

inline void store_bytes(I32x16 x, int8_t* p) {
  // In order of 64 bits: lanes 0 to 3, 8 to 11, 4 to 7, 12 to 15.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.lo, x.hi), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
inline I32x16 add(I32x16 x, I32x16 y) { return {_mm256_add_epi32(x.lo, y.lo), _mm256_add_epi32(x.hi, y.hi)}; }

/// The vector from which a dot product starts (int8_dot.h).
template <StartKind kStart>
inline __m256i start_of(const uint8_t* word) {
  if constexpr (kStart == StartKind::none) return _mm256_setzero_si256();
  return I8x4::load(word).v;
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
