// Sixteen float or int32 lanes for the encoders, as GCC vector types. One source gives the same bits on every
// instruction set, because no operation is fused, reordered or approximated. Encoders put one block in each lane
// (load_blocks() transposes them), so that the sums of a block run over its elements in index order, without a
// horizontal sum.
//
// Everything is in the namespace of the set, and no inline code of the standard library is used (cmake/isa.cmake).
#pragma once

#include <stdint.h>
#include <string.h>

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr int kLanes = 16;

#if defined(TESSERA_ISA_avx512)

using F32x16 [[gnu::vector_size(64)]] = float;
using I32x16 [[gnu::vector_size(64)]] = int32_t;

[[gnu::always_inline]] inline I32x16 bits_of(F32x16 v) { return (I32x16)v; }
[[gnu::always_inline]] inline F32x16 from_bits(I32x16 v) { return (F32x16)v; }
[[gnu::always_inline]] inline I32x16 to_i32(F32x16 v) { return __builtin_convertvector(v, I32x16); }  // truncates
[[gnu::always_inline]] inline F32x16 to_f32(I32x16 v) { return __builtin_convertvector(v, F32x16); }
/// The larger lane; b if a is NaN.
[[gnu::always_inline]] inline F32x16 max(F32x16 a, F32x16 b) { return a > b ? a : b; }
[[gnu::always_inline]] inline F32x16 min(F32x16 a, F32x16 b) { return a < b ? a : b; }

#else

// GCC 12 compares vectors wider than a register element by element, which is eight times slower. So here they are
// arrays of register-wide vectors, with the operators of vector types.
#if defined(TESSERA_ISA_avx2)
inline constexpr int kPartBytes = 32;
#else
inline constexpr int kPartBytes = 16;
#endif
inline constexpr int kParts = 64 / kPartBytes;

template <typename T>
struct Wide {
  using Part [[gnu::vector_size(kPartBytes)]] = T;

  Part parts[kParts];

  [[gnu::always_inline]] T& operator[](int lane) { return reinterpret_cast<T*>(parts)[lane]; }
  [[gnu::always_inline]] T operator[](int lane) const { return reinterpret_cast<const T*>(parts)[lane]; }
};
using F32x16 = Wide<float>;
using I32x16 = Wide<int32_t>;

#define TESSERA_WIDE_OPERATOR(T, Result, op)                                     \
  [[gnu::always_inline]] inline Wide<Result> operator op(Wide<T> a, Wide<T> b) { \
    Wide<Result> out;                                                            \
    for (int i = 0; i < kParts; ++i) out.parts[i] = a.parts[i] op b.parts[i];    \
    return out;                                                                  \
  }                                                                              \
  [[gnu::always_inline]] inline Wide<Result> operator op(Wide<T> a, T b) {       \
    Wide<Result> out;                                                            \
    for (int i = 0; i < kParts; ++i) out.parts[i] = a.parts[i] op b;             \
    return out;                                                                  \
  }                                                                              \
  [[gnu::always_inline]] inline Wide<Result> operator op(T a, Wide<T> b) {       \
    Wide<Result> out;                                                            \
    for (int i = 0; i < kParts; ++i) out.parts[i] = a op b.parts[i];             \
    return out;                                                                  \
  }
#define TESSERA_WIDE_ARITHMETIC(T, op)                                                                \
  TESSERA_WIDE_OPERATOR(T, T, op)                                                                     \
  [[gnu::always_inline]] inline Wide<T>& operator op##=(Wide<T>& a, Wide<T> b) { return a = a op b; } \
  [[gnu::always_inline]] inline Wide<T>& operator op##=(Wide<T>& a, T b) { return a = a op b; }

TESSERA_WIDE_ARITHMETIC(float, +)
TESSERA_WIDE_ARITHMETIC(float, -)
TESSERA_WIDE_ARITHMETIC(float, *)
TESSERA_WIDE_ARITHMETIC(float, /)
TESSERA_WIDE_ARITHMETIC(int32_t, +)
TESSERA_WIDE_ARITHMETIC(int32_t, -)
TESSERA_WIDE_ARITHMETIC(int32_t, *)
TESSERA_WIDE_ARITHMETIC(int32_t, &)
TESSERA_WIDE_ARITHMETIC(int32_t, |)
TESSERA_WIDE_ARITHMETIC(int32_t, ^)
TESSERA_WIDE_ARITHMETIC(int32_t, <<)
TESSERA_WIDE_ARITHMETIC(int32_t, >>)
TESSERA_WIDE_OPERATOR(float, int32_t, <)
TESSERA_WIDE_OPERATOR(float, int32_t, >)
TESSERA_WIDE_OPERATOR(float, int32_t, <=)
TESSERA_WIDE_OPERATOR(float, int32_t, >=)
TESSERA_WIDE_OPERATOR(float, int32_t, ==)
TESSERA_WIDE_OPERATOR(float, int32_t, !=)
TESSERA_WIDE_OPERATOR(int32_t, int32_t, <)
TESSERA_WIDE_OPERATOR(int32_t, int32_t, >)
TESSERA_WIDE_OPERATOR(int32_t, int32_t, <=)
TESSERA_WIDE_OPERATOR(int32_t, int32_t, >=)
TESSERA_WIDE_OPERATOR(int32_t, int32_t, ==)
TESSERA_WIDE_OPERATOR(int32_t, int32_t, !=)
#undef TESSERA_WIDE_ARITHMETIC
#undef TESSERA_WIDE_OPERATOR

[[gnu::always_inline]] inline F32x16 operator-(F32x16 v) {
  for (int i = 0; i < kParts; ++i) v.parts[i] = -v.parts[i];
  return v;
}
[[gnu::always_inline]] inline I32x16 operator-(I32x16 v) {
  for (int i = 0; i < kParts; ++i) v.parts[i] = -v.parts[i];
  return v;
}
[[gnu::always_inline]] inline I32x16 operator~(I32x16 v) {
  for (int i = 0; i < kParts; ++i) v.parts[i] = ~v.parts[i];
  return v;
}

[[gnu::always_inline]] inline I32x16 bits_of(F32x16 v) {
  I32x16 out;
  for (int i = 0; i < kParts; ++i) out.parts[i] = (I32x16::Part)v.parts[i];
  return out;
}
[[gnu::always_inline]] inline F32x16 from_bits(I32x16 v) {
  F32x16 out;
  for (int i = 0; i < kParts; ++i) out.parts[i] = (F32x16::Part)v.parts[i];
  return out;
}
/// Truncates.
[[gnu::always_inline]] inline I32x16 to_i32(F32x16 v) {
  I32x16 out;
  for (int i = 0; i < kParts; ++i) out.parts[i] = __builtin_convertvector(v.parts[i], I32x16::Part);
  return out;
}
[[gnu::always_inline]] inline F32x16 to_f32(I32x16 v) {
  F32x16 out;
  for (int i = 0; i < kParts; ++i) out.parts[i] = __builtin_convertvector(v.parts[i], F32x16::Part);
  return out;
}
[[gnu::always_inline]] inline F32x16 max(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.parts[i] = a.parts[i] > b.parts[i] ? a.parts[i] : b.parts[i];
  return a;
}
[[gnu::always_inline]] inline F32x16 min(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.parts[i] = a.parts[i] < b.parts[i] ? a.parts[i] : b.parts[i];
  return a;
}

#endif

[[gnu::always_inline]] inline F32x16 load(const float* p) {
  F32x16 v;
  memcpy(&v, p, sizeof v);
  return v;
}
[[gnu::always_inline]] inline void store(F32x16 v, float* p) { memcpy(p, &v, sizeof v); }
[[gnu::always_inline]] inline F32x16 broadcast(float x) { return x - F32x16{}; }
[[gnu::always_inline]] inline I32x16 broadcast_i32(int32_t x) { return x - I32x16{}; }

/// Selects a if the lane of the mask is -1, b if it is 0.
[[gnu::always_inline]] inline F32x16 select(I32x16 mask, F32x16 a, F32x16 b) {
  return from_bits((mask & bits_of(a)) | (~mask & bits_of(b)));
}
[[gnu::always_inline]] inline I32x16 select(I32x16 mask, I32x16 a, I32x16 b) { return (mask & a) | (~mask & b); }

[[gnu::always_inline]] inline F32x16 abs(F32x16 v) { return from_bits(bits_of(v) & 0x7fffffff); }
[[gnu::always_inline]] inline F32x16 clamp(F32x16 v, float low, float high) {
  return min(max(v, broadcast(low)), broadcast(high));
}

/// Rounds half to even; |v| < 2^22.
[[gnu::always_inline]] inline F32x16 round_even(F32x16 v) {
  const F32x16 magic = broadcast(0x1.8p23f);
  return (v + magic) - magic;
}

/// Stores the low byte of each lane.
[[gnu::always_inline]] inline void to_bytes(I32x16 v, uint8_t* bytes) {
#if defined(TESSERA_ISA_avx512)
  using U8x16 [[gnu::vector_size(16)]] = uint8_t;
  const U8x16 low = __builtin_convertvector(v, U8x16);
  memcpy(bytes, &low, sizeof low);
#else
  for (int i = 0; i < kLanes; ++i) bytes[i] = static_cast<uint8_t>(v[i]);
#endif
}

[[gnu::always_inline]] inline bool any(I32x16 mask) {
  int32_t all = 0;
  for (int i = 0; i < kLanes; ++i) all |= mask[i];
  return all != 0;
}

/// to[j * to_stride + i] = from[i * from_stride + j] for i, j < 4.
[[gnu::always_inline]] inline void transpose_tile(const float* from, int from_stride, float* to, int to_stride) {
  using F32x4 [[gnu::vector_size(16)]] = float;
  F32x4 r[4];
  for (int i = 0; i < 4; ++i) memcpy(&r[i], from + i * from_stride, sizeof r[i]);
  const F32x4 a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const F32x4 c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7), d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  const F32x4 columns[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                            __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
  for (int j = 0; j < 4; ++j) memcpy(to + j * to_stride, &columns[j], sizeof columns[j]);
}

/// Loads n_blocks (<= 16) blocks of N consecutive floats: lane b of x[i] is element i of block b. Lanes past n_blocks
/// are copies of block 0, so that every operation on a lane is defined.
template <int N>
inline void load_blocks(const float* blocks, int n_blocks, F32x16 (&x)[N]) {
  static_assert(N % 4 == 0);
  alignas(64) float padded[kLanes * N];
  if (n_blocks < kLanes) {
    for (int b = 0; b < kLanes; ++b) memcpy(padded + b * N, blocks + (b < n_blocks ? b : 0) * N, N * sizeof(float));
    blocks = padded;
  }
  float* out = reinterpret_cast<float*>(x);
  for (int i = 0; i < N; i += 4)
    for (int b = 0; b < kLanes; b += 4) transpose_tile(blocks + b * N + i, N, out + i * kLanes + b, kLanes);
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
