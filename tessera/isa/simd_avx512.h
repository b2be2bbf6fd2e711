// simd.h for AVX-512 (F, BW, DQ, VL): sixteen lanes as one 512-bit vector.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace tessera::isa::TESSERA_ISA_NAMESPACE {

inline __mmask16 first_lanes(int n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : (1u << (n > 0 ? n : 0)) - 1u); }

inline float f16_value(uint16_t h) { return _cvtsh_ss(h); }
inline uint16_t f16_bits(float f) { return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT); }

struct F32x16 {
  __m512 v;

  static F32x16 zero() { return {_mm512_setzero_ps()}; }
  static F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static F32x16 load_partial(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
  static F32x16 load_f16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static F32x16 load_f16_partial(const uint16_t* p, int n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p))};
  }
  static F32x16 load_bf16(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static F32x16 load_bf16_partial(const uint16_t* p, int n) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(n), p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static F32x16 load_i8(const int8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }

  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_partial(float* p, int n) const { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
  void store_f16(uint16_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half()); }
  void store_f16_partial(uint16_t* p, int n) const { _mm256_mask_storeu_epi16(p, first_lanes(n), half()); }
  void store_bf16(uint16_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), brain()); }
  void store_bf16_partial(uint16_t* p, int n) const { _mm256_mask_storeu_epi16(p, first_lanes(n), brain()); }

 private:
  __m256i half() const { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
  __m256i brain() const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), quiet));
  }
};

struct I32x16 {
  __m512i v;

  static I32x16 zero() { return {_mm512_setzero_si512()}; }
  static I32x16 broadcast(int32_t x) { return {_mm512_set1_epi32(x)}; }
  static I32x16 load(const void* p) { return {_mm512_loadu_si512(p)}; }
  static I32x16 load_u8(const void* p) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i_u*>(p)))};
  }
  void store(void* p) const { _mm512_storeu_si512(p, v); }
};

/// -16 to 31. A permutation of a part of this table turns codes into floats without masking or conversion.
alignas(64) inline constexpr float kIntegers[48] = {
    -16, -15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0,  1,  2,  3,  4,  5,  6,  7,
    8,   9,   10,  11,  12,  13,  14,  15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

inline F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32x16 sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32x16 abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
inline F32x16 round_even(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline __m512i half_bf16_added(F32x16 a) {
  return _mm512_add_epi32(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x8000));
}
inline F32x16 nearest_bf16(F32x16 a) {
  return {_mm512_castsi512_ps(_mm512_and_si512(half_bf16_added(a), _mm512_set1_epi32(~0xffff)))};
}
inline F32x16 to_f32(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I32x16 as_bits(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
inline F32x16 as_floats(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
inline I32x16 bit_and(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I32x16 max(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline I32x16 max_halves(I32x16 a, I32x16 b) { return {_mm512_max_epi16(a.v, b.v)}; }
inline I32x16 low_halves(I32x16 a, I32x16 b) {
  return {_mm512_mask_blend_epi16(0xaaaaaaaa, a.v, _mm512_slli_epi32(b.v, 16))};
}
inline I32x16 add_pairs(I32x16 sum, I32x16 a, I32x16 b) {
  // GCC 12 copies the sums of a loop around the intrinsic of this instruction.
  __asm__("vpdpwssd %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
  return sum;
}
inline I32x16 shift_left(I32x16 a, int n) { return {_mm512_slli_epi32(a.v, static_cast<unsigned>(n))}; }
inline I32x16 shift_right(I32x16 a, int n) { return {_mm512_srli_epi32(a.v, static_cast<unsigned>(n))}; }
inline F32x16 lookup(const float (&table)[16], I32x16 a) {
  return {_mm512_permutexvar_ps(a.v, _mm512_loadu_ps(table))};
}
template <int kOffset>
inline F32x16 integer_of_4_bits(I32x16 a) {
  static_assert(kOffset >= 0 && kOffset <= 16);
  return {_mm512_permutexvar_ps(a.v, _mm512_loadu_ps(kIntegers + 16 - kOffset))};
}
template <int kOffset>
inline F32x16 integer_of_5_bits(I32x16 a) {
  static_assert(kOffset >= 0 && kOffset <= 16);
  const float* table = kIntegers + 16 - kOffset;
  return {_mm512_permutex2var_ps(_mm512_loadu_ps(table), a.v, _mm512_loadu_ps(table + 16))};
}
inline I32x16 select_bits(int32_t bits, I32x16 a, I32x16 b) {
  constexpr int kChoose = 0xca;  // bits of the second operand where the first has a 1, else of the third
  return {_mm512_ternarylogic_epi32(_mm512_set1_epi32(bits), a.v, b.v, kChoose)};
}

inline F32x16 add_where(uint16_t mask, F32x16 a, F32x16 b) { return {_mm512_mask_add_ps(a.v, mask, a.v, b.v)}; }
inline uint16_t at_least(F32x16 a, F32x16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ); }
inline F32x16 add_where_at_least(F32x16 v, F32x16 limit, F32x16 a, F32x16 b) {
  return add_where(at_least(v, limit), a, b);
}
inline void store_u8(F32x16 a, uint8_t* p) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(a.v)));
}
inline F32x16 select_first(int n, F32x16 a, F32x16 b) { return {_mm512_mask_mov_ps(b.v, first_lanes(n), a.v)}; }
inline F32x16 select_mask(uint16_t mask, F32x16 a, F32x16 b) { return {_mm512_mask_mov_ps(b.v, mask, a.v)}; }

inline F32x16 swap_pairs(F32x16 a) { return {_mm512_permute_ps(a.v, 0xb1)}; }
inline F32x16 even_of_pairs(F32x16 a) { return {_mm512_moveldup_ps(a.v)}; }
inline F32x16 odd_of_pairs(F32x16 a) { return {_mm512_movehdup_ps(a.v)}; }

inline float reduce_add(F32x16 a) {
  const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
inline float reduce_max(F32x16 a) {
  const __m256 m8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
  const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
  return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

inline F32x16 exp2_finish(F32x16 x, F32x16 p, F32x16 n) {
  const __mmask16 is_normal = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(kLowestExp2), _CMP_NLT_UQ);
  return {_mm512_maskz_scalef_ps(is_normal, p.v, n.v)};
}

inline F32x16 exp_finish(F32x16 x, F32x16 p, F32x16 n) {
  __m512 r = _mm512_scalef_ps(p.v, n.v);
  r = _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(-87.3f), _CMP_LT_OQ), _mm512_setzero_ps());
  r = _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(88.7f), _CMP_GT_OQ),
                         _mm512_set1_ps(__builtin_inff()));
  return {_mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), x.v)};
}

}  // namespace tessera::isa::TESSERA_ISA_NAMESPACE
