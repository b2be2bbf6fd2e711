// Sixteen float or int32 lanes for the kernels of one instruction set. Kernels are written once with F32x16 and I32x16,
// and compiled once per set (see cmake/isa.cmake). Only such sources include this header.
//
// Another instruction set (NEON, for example) needs a row in sets.def, flags in cmake/isa.cmake, and a simd_<set>.h
// with the same declarations as simd_scalar.h. If it has integer dot products, it also needs
// cpu/kernels/int8_dot_<set>.h. The encoders of quant/formats use vector types of the compiler (formats/vec.h), where
// only the width depends on the set.
//
// Everything is in the namespace of the set, and no inline code of the standard library is used. Every operation has
// one fixed order of float operations. The scalar set differs from the vector sets only in fma(), which rounds twice.
//
//   load/store[_partial]   16 (or the first n) consecutive floats; partial loads fill with 0
//   load_f16, load_bf16    likewise from 16-bit floats, converted exactly; store_* round to nearest even
//   integer_of_4_bits, integer_of_5_bits    the low bits of each lane minus an offset, as a float
//   reduce_add, reduce_max tree over lanes: i with i+8, then i+4, i+2, i+1
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tessera::isa::TESSERA_ISA_NAMESPACE {
/// exp2_nonpositive() is 0 below this value, and a normal number above it.
inline constexpr float kLowestExp2 = -125.0f;
template <int... kLane>
struct LaneList {};
}  // namespace tessera::isa::TESSERA_ISA_NAMESPACE

#if defined(TESSERA_ISA_avx512)
#include "tessera/isa/simd_avx512.h"
#elif defined(TESSERA_ISA_avx2)
#include "tessera/isa/simd_avx2.h"
#else
#include "tessera/isa/simd_scalar.h"
#endif

namespace tessera::isa::TESSERA_ISA_NAMESPACE {

inline constexpr int kLanes = 16;

/// e^x = 2^n (1 + r + p r^2): Cody-Waite reduction to |r| <= ln(2)/2, then the minimax polynomial of Cephes' expf
/// (Moshier 1984).
struct ExpTerms {
  F32x16 n, r, p;
};
inline ExpTerms exp_terms(F32x16 x) {
  const F32x16 n = round_even(mul(x, F32x16::broadcast(1.44269504088896341f)));
  F32x16 r = fma(n, F32x16::broadcast(-0.693359375f), x);
  r = fma(n, F32x16::broadcast(2.12194440e-4f), r);
  F32x16 p = F32x16::broadcast(1.9875691500e-4f);
  p = fma(p, r, F32x16::broadcast(1.3981999507e-3f));
  p = fma(p, r, F32x16::broadcast(8.3334519073e-3f));
  p = fma(p, r, F32x16::broadcast(4.1665795894e-2f));
  p = fma(p, r, F32x16::broadcast(1.6666665459e-1f));
  p = fma(p, r, F32x16::broadcast(5.0000001201e-1f));
  return {n, r, p};
}

/// e^x per lane, within 2 ulp where the result is normal; 0 below -87.3, +inf above 88.7, NaN stays NaN.
inline F32x16 exp(F32x16 x) {
  const auto [n, r, p] = exp_terms(x);
  return exp_finish(x, fma(p, mul(r, r), add(r, F32x16::broadcast(1.0f))), n);
}

/// 1 + e^-x per lane, the denominator of the sigmoid.
inline F32x16 one_plus_exp_minus(F32x16 x) { return add(F32x16::broadcast(1.0f), exp(sub(F32x16::zero(), x))); }

inline F32x16 sigmoid(F32x16 x) { return div(F32x16::broadcast(1.0f), one_plus_exp_minus(x)); }

/// 2^x for x <= 0 per lane, within 2 ulp; 0 below kLowestExp2, NaN stays NaN. x = n + r with |r| <= 1/2, then the
/// minimax polynomial of Cephes' exp2f (Moshier 1984). Half the work of exp(), for the weights of a softmax.
inline F32x16 exp2_nonpositive(F32x16 x) {
  const F32x16 n = round_even(x), r = sub(x, n);
  F32x16 p = F32x16::broadcast(1.535336188319500e-4f);
  p = fma(p, r, F32x16::broadcast(1.339887440266574e-3f));
  p = fma(p, r, F32x16::broadcast(9.618437357674640e-3f));
  p = fma(p, r, F32x16::broadcast(5.550332471162809e-2f));
  p = fma(p, r, F32x16::broadcast(2.402264791363012e-1f));
  p = fma(p, r, F32x16::broadcast(6.931472028550421e-1f));
  return exp2_finish(x, fma(p, r, F32x16::broadcast(1.0f)), n);
}

/// Likewise within a relative error of 1.1e-4, a fortieth of the largest one of rounding to bf16. 2^0 is exactly 1.
inline F32x16 exp2_for_bf16(F32x16 x) {
  const F32x16 n = round_even(x), r = sub(x, n);
  F32x16 p = F32x16::broadcast(5.5008747e-2f);
  p = fma(p, r, F32x16::broadcast(2.4221076e-1f));
  p = fma(p, r, F32x16::broadcast(6.932829e-1f));
  return exp2_finish(x, fma(p, r, F32x16::broadcast(1.0f)), n);
}

/// tanh(x) per lane, within 4 ulp; NaN stays NaN. Computed as u / (u + 2) with u = e^2x - 1 =
/// (2^n - 1) + 2^n (r + p r^2), which has no cancellation for small x.
inline F32x16 tanh(F32x16 x) {
  const F32x16 one = F32x16::broadcast(1.0f), two = F32x16::broadcast(2.0f);
  // Beyond 10 the result is exactly 1. max and min propagate a NaN from their second operand.
  const F32x16 doubled = mul(two, min(F32x16::broadcast(10.0f), max(F32x16::broadcast(-10.0f), x)));
  const auto [n, r, p] = exp_terms(doubled);
  const F32x16 power = exp_finish(doubled, one, n);
  const F32x16 u = fma(power, fma(p, mul(r, r), r), sub(power, one));
  return div(u, add(u, two));
}

#if !defined(TESSERA_ISA_avx2)  // GCC moves lane by lane where a vector has two halves
/// Exchanges the off-diagonal blocks of a and b: the lanes of a with bit kDistance and the lanes of b without it.
template <int kDistance, int... kLane>
inline void exchange(F32x16& a, F32x16& b, LaneList<kLane...>) {
  using Vector = float __attribute__((vector_size(64)));
  Vector x, y;
  __builtin_memcpy(&x, &a, sizeof(x));
  __builtin_memcpy(&y, &b, sizeof(y));
  const Vector first =
      __builtin_shufflevector(x, y, ((kLane & kDistance) == 0 ? kLane : kLanes + kLane - kDistance)...);
  const Vector second =
      __builtin_shufflevector(x, y, ((kLane & kDistance) == 0 ? kLane + kDistance : kLanes + kLane)...);
  __builtin_memcpy(&a, &first, sizeof(x));
  __builtin_memcpy(&b, &second, sizeof(y));
}
#endif

/// Transposes 16 rows of 16 lanes: exchanges lane j of row i and lane i of row j.
inline void transpose(F32x16* rows) {
  using All = LaneList<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
  for (int i = 0; i < 8; ++i) exchange<8>(rows[i], rows[i + 8], All{});
  for (int i = 0; i < kLanes; ++i)
    if ((i & 4) == 0) exchange<4>(rows[i], rows[i + 4], All{});
  for (int i = 0; i < kLanes; ++i)
    if ((i & 2) == 0) exchange<2>(rows[i], rows[i + 2], All{});
  for (int i = 0; i < kLanes; i += 2) exchange<1>(rows[i], rows[i + 1], All{});
}

/// The sum of n terms: 16 striped partial sums, then the tree of reduce_add. term(i, n) returns n (<= 16) lanes from
/// element i on, with 0 in the other lanes.
template <class Term>
inline float striped_sum(int64_t n, Term term) {
  F32x16 acc = F32x16::zero();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) acc = add(acc, term(i, kLanes));
  if (i < n) acc = add(acc, term(i, static_cast<int>(n - i)));
  return reduce_add(acc);
}

}  // namespace tessera::isa::TESSERA_ISA_NAMESPACE
