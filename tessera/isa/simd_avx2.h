// simd.h for AVX2 with FMA and F16C: sixteen lanes as two 256-bit vectors (lo: lanes 0-7, hi: lanes 8-15).
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace tessera::isa::TESSERA_ISA_NAMESPACE {

/// A mask of 8 lanes with all bits set in the lanes i < n.
inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline __m128i bf16_bits8(__m256 f) {
  const __m256i bits = _mm256_castps_si256(f);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(f, f, _CMP_UNORD_Q));
  const __m256i words = _mm256_blendv_epi8(rounded, quiet, nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

inline float f16_value(uint16_t h) { return _cvtsh_ss(h); }
inline uint16_t f16_bits(float f) { return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT); }

struct F32x16 {
  __m256 lo, hi;

  static F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static F32x16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static F32x16 load_partial(const float* p, int n) {
    return {_mm256_maskload_ps(p, first_lanes(n)),
            n > 8 ? _mm256_maskload_ps(p + 8, first_lanes(n - 8)) : _mm256_setzero_ps()};
  }
  static F32x16 load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  static F32x16 load_f16_partial(const uint16_t* p, int n) {
    uint16_t padded[16] = {};
    memcpy(padded, p, static_cast<size_t>(n) * 2);
    return load_f16(padded);
  }
  static F32x16 load_bf16(const uint16_t* p) {
    const __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
  }
  static F32x16 load_bf16_partial(const uint16_t* p, int n) {
    uint16_t padded[16] = {};
    memcpy(padded, p, static_cast<size_t>(n) * 2);
    return load_bf16(padded);
  }
  static F32x16 load_i8(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }

  void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  void store_partial(float* p, int n) const {
    _mm256_maskstore_ps(p, first_lanes(n), lo);
    if (n > 8) _mm256_maskstore_ps(p + 8, first_lanes(n - 8), hi);
  }
  void store_f16(uint16_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(hi, _MM_FROUND_TO_NEAREST_INT));
  }
  void store_f16_partial(uint16_t* p, int n) const {
    uint16_t padded[16];
    store_f16(padded);
    memcpy(p, padded, static_cast<size_t>(n) * 2);
  }
  void store_bf16(uint16_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bf16_bits8(lo));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), bf16_bits8(hi));
  }
  void store_bf16_partial(uint16_t* p, int n) const {
    uint16_t padded[16];
    store_bf16(padded);
    memcpy(p, padded, static_cast<size_t>(n) * 2);
  }
};

struct I32x16 {
  __m256i lo, hi;

  static I32x16 zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static I32x16 broadcast(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static I32x16 load(const void* p) {
    const auto* halves = static_cast<const __m256i_u*>(p);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
  }
  static I32x16 load_u8(const void* p) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i_u*>(p));
    return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
  }
  void store(void* p) const {
    auto* halves = static_cast<__m256i_u*>(p);
    _mm256_storeu_si256(halves, lo);
    _mm256_storeu_si256(halves + 1, hi);
  }
};

inline F32x16 add(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline F32x16 sqrt(F32x16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline F32x16 abs(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline F32x16 round_even(F32x16 a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
inline __m256 nearest_bf16(__m256 a) {
  const __m256i half_added = _mm256_add_epi32(_mm256_castps_si256(a), _mm256_set1_epi32(0x8000));
  return _mm256_castsi256_ps(_mm256_and_si256(half_added, _mm256_set1_epi32(~0xffff)));
}
inline F32x16 nearest_bf16(F32x16 a) { return {nearest_bf16(a.lo), nearest_bf16(a.hi)}; }
inline F32x16 to_f32(I32x16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline I32x16 as_bits(F32x16 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
inline F32x16 as_floats(I32x16 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
inline I32x16 bit_and(I32x16 a, I32x16 b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
inline I32x16 max(I32x16 a, I32x16 b) { return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)}; }
inline I32x16 max_halves(I32x16 a, I32x16 b) { return {_mm256_max_epi16(a.lo, b.lo), _mm256_max_epi16(a.hi, b.hi)}; }
inline I32x16 low_halves(I32x16 a, I32x16 b) {
  return {_mm256_blend_epi16(a.lo, _mm256_slli_epi32(b.lo, 16), 0xaa),
          _mm256_blend_epi16(a.hi, _mm256_slli_epi32(b.hi, 16), 0xaa)};
}
#if defined(TESSERA_ISA_avxvnni)
inline I32x16 add_pairs(I32x16 sum, I32x16 a, I32x16 b) {
  // As in AVX-512, the intrinsic would be surrounded by copies.
  __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum.lo) : "x"(a.lo), "x"(b.lo));
  __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum.hi) : "x"(a.hi), "x"(b.hi));
  return sum;
}
#else
inline I32x16 add_pairs(I32x16 sum, I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(sum.lo, _mm256_madd_epi16(a.lo, b.lo)),
          _mm256_add_epi32(sum.hi, _mm256_madd_epi16(a.hi, b.hi))};
}
#endif
inline I32x16 shift_left(I32x16 a, int n) { return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)}; }
inline I32x16 shift_right(I32x16 a, int n) { return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)}; }
template <int kOffset>
inline __m256 integers_less(__m256i integers) {
  if constexpr (kOffset == 0) return _mm256_cvtepi32_ps(integers);
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(integers, _mm256_set1_epi32(kOffset)));
}
template <int kOffset>
inline F32x16 integer_of_4_bits(I32x16 a) {
  const __m256i bits = _mm256_set1_epi32(15);
  return {integers_less<kOffset>(_mm256_and_si256(a.lo, bits)), integers_less<kOffset>(_mm256_and_si256(a.hi, bits))};
}
template <int kOffset>
inline F32x16 integer_of_5_bits(I32x16 a) {
  const __m256i bits = _mm256_set1_epi32(31);
  return {integers_less<kOffset>(_mm256_and_si256(a.lo, bits)), integers_less<kOffset>(_mm256_and_si256(a.hi, bits))};
}
inline I32x16 select_bits(int32_t bits, I32x16 a, I32x16 b) {
  const __m256i mask = _mm256_set1_epi32(bits);
  return {_mm256_or_si256(_mm256_and_si256(mask, a.lo), _mm256_andnot_si256(mask, b.lo)),
          _mm256_or_si256(_mm256_and_si256(mask, a.hi), _mm256_andnot_si256(mask, b.hi))};
}
inline F32x16 lookup(const float (&table)[16], I32x16 a) {
  const __m256 first = _mm256_loadu_ps(table), second = _mm256_loadu_ps(table + 8);
  const auto of = [=](__m256i index) {  // bit 3, moved to the sign, selects the half
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(first, index), _mm256_permutevar8x32_ps(second, index),
                            _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  };
  return {of(a.lo), of(a.hi)};
}

inline F32x16 add_where(uint16_t mask, F32x16 a, F32x16 b) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i lo = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask), bits), bits);
  const __m256i hi = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask >> 8), bits), bits);
  return {_mm256_add_ps(a.lo, _mm256_and_ps(b.lo, _mm256_castsi256_ps(lo))),
          _mm256_add_ps(a.hi, _mm256_and_ps(b.hi, _mm256_castsi256_ps(hi)))};
}
inline uint16_t at_least(F32x16 a, F32x16 b) {
  const int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ));
  const int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ));
  return static_cast<uint16_t>(lo | hi << 8);
}
inline F32x16 add_where_at_least(F32x16 v, F32x16 limit, F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, _mm256_and_ps(b.lo, _mm256_cmp_ps(v.lo, limit.lo, _CMP_GE_OQ))),
          _mm256_add_ps(a.hi, _mm256_and_ps(b.hi, _mm256_cmp_ps(v.hi, limit.hi, _CMP_GE_OQ)))};
}
inline void store_u8(F32x16 a, uint8_t* p) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvttps_epi32(a.lo), _mm256_cvttps_epi32(a.hi));
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
inline F32x16 select_first(int n, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(first_lanes(n))),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(first_lanes(n - 8)))};
}
inline F32x16 select_mask(uint16_t mask, F32x16 a, F32x16 b) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i lo = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask & 0xff), bits), bits);
  const __m256i hi = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask >> 8), bits), bits);
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(lo)), _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(hi))};
}

inline F32x16 swap_pairs(F32x16 a) { return {_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)}; }
inline F32x16 even_of_pairs(F32x16 a) { return {_mm256_moveldup_ps(a.lo), _mm256_moveldup_ps(a.hi)}; }
inline F32x16 odd_of_pairs(F32x16 a) { return {_mm256_movehdup_ps(a.lo), _mm256_movehdup_ps(a.hi)}; }

template <int kDistance, int... kLane>
inline void exchange(__m256& a, __m256& b, LaneList<kLane...>) {
  const __m256 first = __builtin_shufflevector(a, b, ((kLane & kDistance) == 0 ? kLane : 8 + kLane - kDistance)...);
  b = __builtin_shufflevector(a, b, ((kLane & kDistance) == 0 ? kLane + kDistance : 8 + kLane)...);
  a = first;
}
/// As in simd.h.
template <int kDistance, int... kLane>
inline void exchange(F32x16& a, F32x16& b, LaneList<kLane...>) {
  if constexpr (kDistance == 8) {
    const __m256 first = b.lo;
    b.lo = a.hi;
    a.hi = first;
  } else {
    using Half = LaneList<0, 1, 2, 3, 4, 5, 6, 7>;
    exchange<kDistance>(a.lo, b.lo, Half{});
    exchange<kDistance>(a.hi, b.hi, Half{});
  }
}

inline float reduce_add(F32x16 a) {
  const __m256 s8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
inline float reduce_max(F32x16 a) {
  const __m256 m8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
  const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
  return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

inline __m256 exp2_finish8(__m256 x, __m256 p, __m256 n) {
  const __m256i power = _mm256_slli_epi32(_mm256_cvttps_epi32(n), 23);
  const __m256 is_normal = _mm256_cmp_ps(x, _mm256_set1_ps(kLowestExp2), _CMP_NLT_UQ);
  return _mm256_and_ps(is_normal, _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), power)));
}
inline F32x16 exp2_finish(F32x16 x, F32x16 p, F32x16 n) {
  return {exp2_finish8(x.lo, p.lo, n.lo), exp2_finish8(x.hi, p.hi, n.hi)};
}

inline __m256 exp_finish8(__m256 x, __m256 p, __m256 n) {
  const __m256i whole = _mm256_cvttps_epi32(n);
  // The same halves as in the scalar set: n / 2 rounded towards zero, and the rest.
  const __m256i half = _mm256_srai_epi32(_mm256_add_epi32(whole, _mm256_srli_epi32(whole, 31)), 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  __m256 r = _mm256_mul_ps(_mm256_mul_ps(p, a), b);
  r = _mm256_blendv_ps(r, _mm256_setzero_ps(), _mm256_cmp_ps(x, _mm256_set1_ps(-87.3f), _CMP_LT_OQ));
  r = _mm256_blendv_ps(r, _mm256_set1_ps(__builtin_inff()), _mm256_cmp_ps(x, _mm256_set1_ps(88.7f), _CMP_GT_OQ));
  return _mm256_blendv_ps(r, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
inline F32x16 exp_finish(F32x16 x, F32x16 p, F32x16 n) {
  return {exp_finish8(x.lo, p.lo, n.lo), exp_finish8(x.hi, p.hi, n.hi)};
}

}  // namespace tessera::isa::TESSERA_ISA_NAMESPACE
