// Sixteen float or int32 lanes for the kernels of one instruction set: kernels are written once against
// F32x16 and I32x16 and compiled per set (see cmake/isa.cmake). Only kernel sources include this.
//
// All is inside the set's own namespace, and nothing of the standard library with inline code is used. Every
// operation has one fixed order of float operations; scalar differs from the vector sets only in that its fma()
// rounds twice.
//
//   load/store[_partial]   16 (or the first n) consecutive floats; partial loads fill with 0
//   load_f16, load_bf16    the same from 16-bit floats, converted exactly; store_* round to nearest even
//   integer_of_4_bits      the low bits of each lane, less an offset, as a float; of_5_bits: the fifth from another
//   vector reduce_add, reduce_max tree over lanes: i with i+8, then i+4, i+2, i+1
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(TESSERA_ISA_avx512)
#include "tessera/cpu/kernels/simd_avx512.h"
#elif defined(TESSERA_ISA_avx2)
#include "tessera/cpu/kernels/simd_avx2.h"
#else
#include "tessera/cpu/kernels/simd_scalar.h"
#endif

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

inline constexpr int kLanes = 16;

/// e^x per lane, within 2 ulp where the result is normal; 0 below -87.3, +inf above 88.7, NaN stays NaN.
/// Cody-Waite reduction to |r| <= ln(2)/2, then the minimax polynomial of Cephes' expf (Moshier 1984).
inline F32x16 exp(F32x16 x) {
  const F32x16 n = round_even(mul(x, F32x16::broadcast(1.44269504088896341f)));
  F32x16 r = fma(n, F32x16::broadcast(-0.693359375f), x);
  r = fma(n, F32x16::broadcast(2.12194440e-4f), r);
  F32x16 p = F32x16::broadcast(1.9875691500e-4f);
  p = fma(p, r, F32x16::broadcast(1.3981999507e-3f));
  p = fma(p, r, F32x16::broadcast(8.3334519073e-3f));
  p = fma(p, r, F32x16::broadcast(4.1665795894e-2f));
  p = fma(p, r, F32x16::broadcast(1.6666665459e-1f));
  p = fma(p, r, F32x16::broadcast(5.0000001201e-1f));
  p = fma(p, mul(r, r), add(r, F32x16::broadcast(1.0f)));
  return exp_finish(x, p, n);
}

/// Sum of term(i) over n floats: 16 lane-striped partials, then the tree of reduce_add. term(i, n) gives
/// the n (<= 16) lanes from element i on, the others 0.
template <class Term>
inline float striped_sum(int64_t n, Term term) {
  F32x16 acc = F32x16::zero();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) acc = add(acc, term(i, kLanes));
  if (i < n) acc = add(acc, term(i, static_cast<int>(n - i)));
  return reduce_add(acc);
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
