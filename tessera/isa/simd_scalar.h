// simd.h for any CPU: sixteen lanes as an array. The compiler can vectorise with the baseline instruction set.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tessera/isa/half.h"

namespace tessera::isa::TESSERA_ISA_NAMESPACE {

inline float f16_value(uint16_t h) { return f16_to_f32(h); }
inline uint16_t f16_bits(float f) { return f32_to_f16(f); }

struct F32x16 {
  float v[16];

  static F32x16 zero() { return broadcast(0.0f); }
  static F32x16 broadcast(float x) {
    F32x16 r;
    for (float& lane : r.v) lane = x;
    return r;
  }
  static F32x16 load(const float* p) {
    F32x16 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static F32x16 load_partial(const float* p, int n) {
    F32x16 r = zero();
    for (int i = 0; i < n; ++i) r.v[i] = p[i];
    return r;
  }
  static F32x16 load_f16(const uint16_t* p) {
    F32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = f16_value(p[i]);
    return r;
  }
  static F32x16 load_f16_partial(const uint16_t* p, int n) {
    F32x16 r = zero();
    for (int i = 0; i < n; ++i) r.v[i] = f16_value(p[i]);
    return r;
  }
  static F32x16 load_bf16(const uint16_t* p) {
    F32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = bf16_to_f32(p[i]);
    return r;
  }
  static F32x16 load_bf16_partial(const uint16_t* p, int n) {
    F32x16 r = zero();
    for (int i = 0; i < n; ++i) r.v[i] = bf16_to_f32(p[i]);
    return r;
  }
  /// Loads signed bytes as floats.
  static F32x16 load_i8(const int8_t* p) {
    F32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(p[i]);
    return r;
  }

  void store(float* p) const { memcpy(p, v, sizeof v); }
  void store_partial(float* p, int n) const {
    for (int i = 0; i < n; ++i) p[i] = v[i];
  }
  void store_f16(uint16_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = f16_bits(v[i]);
  }
  void store_f16_partial(uint16_t* p, int n) const {
    for (int i = 0; i < n; ++i) p[i] = f16_bits(v[i]);
  }
  void store_bf16(uint16_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = f32_to_bf16(v[i]);
  }
  void store_bf16_partial(uint16_t* p, int n) const {
    for (int i = 0; i < n; ++i) p[i] = f32_to_bf16(v[i]);
  }
};

struct I32x16 {
  int32_t v[16];

  static I32x16 zero() { return broadcast(0); }
  static I32x16 broadcast(int32_t x) {
    I32x16 r;
    for (int32_t& lane : r.v) lane = x;
    return r;
  }
  static I32x16 load(const void* p) {
    I32x16 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
  }
  /// Loads unsigned bytes.
  static I32x16 load_u8(const void* p) {
    I32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<const uint8_t*>(p)[i];
    return r;
  }
  void store(void* p) const { memcpy(p, v, sizeof v); }
};

#define TESSERA_LANES(type, expr)               \
  type r;                                       \
  for (int i = 0; i < 16; ++i) r.v[i] = (expr); \
  return r

inline F32x16 add(F32x16 a, F32x16 b) { TESSERA_LANES(F32x16, a.v[i] + b.v[i]); }
inline F32x16 sub(F32x16 a, F32x16 b) { TESSERA_LANES(F32x16, a.v[i] - b.v[i]); }
inline F32x16 mul(F32x16 a, F32x16 b) { TESSERA_LANES(F32x16, a.v[i] * b.v[i]); }
inline F32x16 div(F32x16 a, F32x16 b) { TESSERA_LANES(F32x16, a.v[i] / b.v[i]); }
inline F32x16 sqrt(F32x16 a) { TESSERA_LANES(F32x16, __builtin_sqrtf(a.v[i])); }
/// a * b + c. In max() and min() below, a NaN in either operand gives b, as in the vector instructions.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { TESSERA_LANES(F32x16, a.v[i] * b.v[i] + c.v[i]); }
inline F32x16 max(F32x16 a, F32x16 b) { TESSERA_LANES(F32x16, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
inline F32x16 min(F32x16 a, F32x16 b) { TESSERA_LANES(F32x16, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
inline F32x16 abs(F32x16 a) { TESSERA_LANES(F32x16, __builtin_fabsf(a.v[i])); }
/// Rounds half to even; |x| < 2^22. Callers clamp larger values, or know that they are integers.
inline F32x16 round_even(F32x16 a) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) {
    const float magnitude = __builtin_fabsf(a.v[i]);
    const volatile float shifted = magnitude + 0x1p23f;  // volatile: keep the rounding addition
    const float rounded = magnitude < 0x1p23f ? shifted - 0x1p23f : magnitude;
    r.v[i] = __builtin_copysignf(rounded, a.v[i]);
  }
  return r;
}
/// The nearest bf16, of two the one farther from 0. A NaN that arithmetic gives stays a NaN.
inline F32x16 nearest_bf16(F32x16 a) { TESSERA_LANES(F32x16, float_of((bits_of(a.v[i]) + 0x8000) & ~0xffffu)); }
inline F32x16 to_f32(I32x16 a) { TESSERA_LANES(F32x16, static_cast<float>(a.v[i])); }
inline I32x16 as_bits(F32x16 a) { TESSERA_LANES(I32x16, static_cast<int32_t>(bits_of(a.v[i]))); }
inline F32x16 as_floats(I32x16 a) { TESSERA_LANES(F32x16, float_of(static_cast<uint32_t>(a.v[i]))); }
inline I32x16 bit_and(I32x16 a, I32x16 b) { TESSERA_LANES(I32x16, a.v[i] & b.v[i]); }
inline I32x16 max(I32x16 a, I32x16 b) { TESSERA_LANES(I32x16, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
/// The larger one of each of the 32 integers of 16 bits.
inline I32x16 max_halves(I32x16 a, I32x16 b) {
  const auto larger = [](int32_t x, int32_t y) {
    const auto low_x = static_cast<int16_t>(x), low_y = static_cast<int16_t>(y);
    const int32_t high = (x >> 16 > y >> 16 ? x : y) & ~0xffff;
    return high | static_cast<uint16_t>(low_x > low_y ? low_x : low_y);
  };
  TESSERA_LANES(I32x16, larger(a.v[i], b.v[i]));
}
/// Pairs of 16-bit integers: the low half of a, then that of b.
inline I32x16 low_halves(I32x16 a, I32x16 b) {
  TESSERA_LANES(I32x16,
                static_cast<int32_t>((static_cast<uint32_t>(a.v[i]) & 0xffff) | static_cast<uint32_t>(b.v[i]) << 16));
}
/// sum + the products of both integers of each pair. A sum that overflows wraps.
inline I32x16 add_pairs(I32x16 sum, I32x16 a, I32x16 b) {
  const auto product = [](int32_t x, int32_t y) {
    return static_cast<uint32_t>(int32_t{static_cast<int16_t>(x)} * static_cast<int16_t>(y));
  };
  TESSERA_LANES(I32x16, static_cast<int32_t>(static_cast<uint32_t>(sum.v[i]) + product(a.v[i], b.v[i]) +
                                             product(a.v[i] >> 16, b.v[i] >> 16)));
}
/// Shifts of the bits as unsigned numbers; n is 0 to 31.
inline I32x16 shift_left(I32x16 a, int n) {
  TESSERA_LANES(I32x16, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << n));
}
inline I32x16 shift_right(I32x16 a, int n) {
  TESSERA_LANES(I32x16, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> n));
}
template <int kOffset>
inline F32x16 integer_of_4_bits(I32x16 a) {
  TESSERA_LANES(F32x16, static_cast<float>((a.v[i] & 15) - kOffset));
}
template <int kOffset>
inline F32x16 integer_of_5_bits(I32x16 a) {
  TESSERA_LANES(F32x16, static_cast<float>((a.v[i] & 31) - kOffset));
}
/// Selects the given bits from a, the others from b.
inline I32x16 select_bits(int32_t bits, I32x16 a, I32x16 b) {
  TESSERA_LANES(I32x16, (a.v[i] & bits) | (b.v[i] & ~bits));
}
/// table[the low four bits].
inline F32x16 lookup(const float (&table)[16], I32x16 a) { TESSERA_LANES(F32x16, table[a.v[i] & 15]); }

/// a + b in the lanes whose bit is set, a in the others; a must not be -0.
inline F32x16 add_where(uint16_t mask, F32x16 a, F32x16 b) {
  TESSERA_LANES(F32x16, ((mask >> i) & 1) != 0 ? a.v[i] + b.v[i] : a.v[i]);
}
/// A bit per lane: a >= b.
inline uint16_t at_least(F32x16 a, F32x16 b) {
  uint32_t mask = 0;
  for (int i = 0; i < 16; ++i) mask |= static_cast<uint32_t>(a.v[i] >= b.v[i]) << i;
  return static_cast<uint16_t>(mask);
}
/// a + b in the lanes where v >= limit, a in the others; a must not be -0.
inline F32x16 add_where_at_least(F32x16 v, F32x16 limit, F32x16 a, F32x16 b) {
  TESSERA_LANES(F32x16, v.v[i] >= limit.v[i] ? a.v[i] + b.v[i] : a.v[i]);
}
/// Stores floats of 0 to 255 as bytes, truncated.
inline void store_u8(F32x16 a, uint8_t* p) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<uint8_t>(static_cast<int32_t>(a.v[i]));
}
/// Selects the lanes i < n from a, the others from b.
inline F32x16 select_first(int n, F32x16 a, F32x16 b) { TESSERA_LANES(F32x16, i < n ? a.v[i] : b.v[i]); }
/// Selects the lanes whose bit is set from a, the others from b.
inline F32x16 select_mask(uint16_t mask, F32x16 a, F32x16 b) {
  TESSERA_LANES(F32x16, ((mask >> i) & 1) != 0 ? a.v[i] : b.v[i]);
}
/// Exchanges adjacent lanes (2i, 2i + 1); copies the first, or the second, of each pair to both lanes.
inline F32x16 swap_pairs(F32x16 a) { TESSERA_LANES(F32x16, a.v[i ^ 1]); }
inline F32x16 even_of_pairs(F32x16 a) { TESSERA_LANES(F32x16, a.v[i & ~1]); }
inline F32x16 odd_of_pairs(F32x16 a) { TESSERA_LANES(F32x16, a.v[i | 1]); }

#undef TESSERA_LANES

inline float reduce_add(F32x16 a) {
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) a.v[i] += a.v[i + step];
  return a.v[0];
}
inline float reduce_max(F32x16 a) {
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) a.v[i] = a.v[i] > a.v[i + step] ? a.v[i] : a.v[i + step];
  return a.v[0];
}

/// p * 2^n if x >= kLowestExp2 or x is NaN, else 0. p (0.7 to 1.42) and the result are normal numbers, or p is NaN.
inline F32x16 exp2_finish(F32x16 x, F32x16 p, F32x16 n) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) {
    float power = 0.0f;
    if (x.v[i] >= kLowestExp2) {
      const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n.v[i]) + 127) << 23;
      memcpy(&power, &bits, 4);
    }
    r.v[i] = x.v[i] < kLowestExp2 ? 0.0f : p.v[i] * power;
  }
  return r;
}

/// p * 2^n if x is in the normal range of exp(), else 0, +inf or NaN.
inline F32x16 exp_finish(F32x16 x, F32x16 p, F32x16 n) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) {
    if (x.v[i] != x.v[i]) {
      r.v[i] = x.v[i];
    } else if (x.v[i] < -87.3f) {
      r.v[i] = 0.0f;
    } else if (x.v[i] > 88.7f) {
      r.v[i] = __builtin_inff();
    } else {
      // 2^n in two factors: n can be 128, and 2^128 is not a finite float.
      const auto half = static_cast<int32_t>(n.v[i]) / 2, rest = static_cast<int32_t>(n.v[i]) - half;
      const uint32_t a = static_cast<uint32_t>(half + 127) << 23, b = static_cast<uint32_t>(rest + 127) << 23;
      float fa, fb;
      memcpy(&fa, &a, 4);
      memcpy(&fb, &b, 4);
      r.v[i] = p.v[i] * fa * fb;
    }
  }
  return r;
}

}  // namespace tessera::isa::TESSERA_ISA_NAMESPACE
