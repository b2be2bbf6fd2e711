// Sixteen float or int32 lanes for the encoders, as GCC's vector types: one source, the same bits on every instruction
// set, since nothing here is fused, reordered or approximated. Encoders put one block in each lane (transposed by
// load_blocks), so that a block's sums run over its elements in index order, without a horizontal sum.
//
// All is in the set's own namespace and nothing of the standard library with inline code is used (cmake/isa.cmake).
#pragma once

#include <stdint.h>
#include <string.h>

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr int kLanes = 16;

using F32x16 [[gnu::vector_size(64)]] = float;
using I32x16 [[gnu::vector_size(64)]] = int32_t;
using U32x16 [[gnu::vector_size(64)]] = uint32_t;

[[gnu::always_inline]] inline F32x16 load(const float* p) {
  F32x16 v;
  memcpy(&v, p, sizeof v);
  return v;
}
[[gnu::always_inline]] inline void store(F32x16 v, float* p) { memcpy(p, &v, sizeof v); }
[[gnu::always_inline]] inline F32x16 broadcast(float x) { return x - F32x16{}; }
[[gnu::always_inline]] inline I32x16 broadcast_i32(int32_t x) { return x - I32x16{}; }

[[gnu::always_inline]] inline I32x16 bits_of(F32x16 v) { return (I32x16)v; }
[[gnu::always_inline]] inline F32x16 from_bits(I32x16 v) { return (F32x16)v; }

/// a where the mask lane is -1, b where it is 0.
[[gnu::always_inline]] inline F32x16 select(I32x16 mask, F32x16 a, F32x16 b) {
  return from_bits((mask & bits_of(a)) | (~mask & bits_of(b)));
}
[[gnu::always_inline]] inline I32x16 select(I32x16 mask, I32x16 a, I32x16 b) { return (mask & a) | (~mask & b); }

[[gnu::always_inline]] inline F32x16 abs(F32x16 v) { return from_bits(bits_of(v) & 0x7fffffff); }
/// b where a is NaN.
[[gnu::always_inline]] inline F32x16 max(F32x16 a, F32x16 b) { return a > b ? a : b; }
[[gnu::always_inline]] inline F32x16 min(F32x16 a, F32x16 b) { return a < b ? a : b; }
[[gnu::always_inline]] inline F32x16 clamp(F32x16 v, float low, float high) {
  return min(max(v, broadcast(low)), broadcast(high));
}

/// Half to even; |v| < 2^22.
[[gnu::always_inline]] inline F32x16 round_even(F32x16 v) {
  const F32x16 magic = broadcast(0x1.8p23f);
  return (v + magic) - magic;
}
[[gnu::always_inline]] inline I32x16 to_i32(F32x16 v) { return __builtin_convertvector(v, I32x16); }  // truncates
[[gnu::always_inline]] inline F32x16 to_f32(I32x16 v) { return __builtin_convertvector(v, F32x16); }

[[gnu::always_inline]] inline bool any(I32x16 mask) {
  int32_t all = 0;
  for (int i = 0; i < kLanes; ++i) all |= mask[i];
  return all != 0;
}

/// x[i] lane b is element i of block b: n_blocks (<= 16) blocks of N consecutive floats; the lanes past them are
/// copies of block 0, so that whatever is done to a lane is defined.
template <int N>
inline void load_blocks(const float* blocks, int n_blocks, F32x16 (&x)[N]) {
  for (int b = 0; b < kLanes; ++b) {
    const float* block = blocks + (b < n_blocks ? b : 0) * N;
    for (int i = 0; i < N; ++i) x[i][b] = block[i];
  }
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
