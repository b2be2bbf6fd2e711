// int8_dot.h for any CPU: plain loops that the compiler can vectorise.
#pragma once

#include <stdint.h>
#include <string.h>

#include "tessera/cpu/kernels/int8_factors.h"
#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

inline constexpr int kInt8Tokens = 2;
inline constexpr int kInt8Panels = 1;
inline constexpr int kInt8PanelTokens = kInt8Tokens;
inline constexpr int kInt8Unroll = 1;

struct U8x64 {
  uint8_t v[64];

  static U8x64 load(const uint8_t* p) {
    U8x64 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
  }
  void store(uint8_t* p) const { memcpy(p, v, sizeof v); }
};

/// A U8x64 with the value of the expression in byte i.
#define TESSERA_BYTES(expr)                                         \
  U8x64 r;                                                          \
  for (int i = 0; i < 64; ++i) r.v[i] = static_cast<uint8_t>(expr); \
  return r

inline U8x64 operator&(const U8x64& x, int byte) { TESSERA_BYTES(x.v[i] & byte); }
inline U8x64 and16(const U8x64& x, int word) { TESSERA_BYTES(x.v[i] & (i % 2 == 0 ? word : word >> 8)); }
inline U8x64 broadcast_u8(int byte) { TESSERA_BYTES(byte); }
inline U8x64 operator|(const U8x64& x, const U8x64& y) { TESSERA_BYTES(x.v[i] | y.v[i]); }
inline U8x64 add(const U8x64& x, const U8x64& y) { TESSERA_BYTES(x.v[i] + y.v[i]); }
inline U8x64 shift_right(const U8x64& x, int n) { TESSERA_BYTES(x.v[i] >> n); }
inline U8x64 shift_left(const U8x64& x, int n) { TESSERA_BYTES(x.v[i] << n); }
inline U8x64 low_nibbles(const uint8_t* p) { TESSERA_BYTES(p[i] & 15); }
inline U8x64 high_nibbles(const uint8_t* p) { TESSERA_BYTES(p[i] >> 4); }
inline U8x64 add_where(const U8x64& x, uint64_t mask, int byte) {
  TESSERA_BYTES(x.v[i] + ((mask >> i & 1) != 0 ? byte : 0));
}
inline U8x64 add_if_bit(const U8x64& x, const U8x64& plane, int bit, int byte) {
  TESSERA_BYTES(x.v[i] + ((plane.v[i] >> bit & 1) != 0 ? byte : 0));
}
inline U8x64 lookup(const U8x64& x, const uint8_t* table) { TESSERA_BYTES(table[x.v[i] & 15]); }
inline U8x64 multiply16(const U8x64& x, const U8x64& y) {
  U8x64 r;
  for (int i = 0; i < 64; i += 2) {
    const uint32_t product =
        static_cast<uint32_t>(x.v[i] | x.v[i + 1] << 8) * static_cast<uint32_t>(y.v[i] | y.v[i + 1] << 8);
    r.v[i] = static_cast<uint8_t>(product);
    r.v[i + 1] = static_cast<uint8_t>(product >> 8);
  }
  return r;
}
inline U8x64 trits(const U8x64& x) { TESSERA_BYTES(x.v[i] * 3 >> 8); }
#undef TESSERA_BYTES

inline I32x16 load_u8(const uint8_t* p) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = p[i];
  return r;
}
inline I32x16 load_i8(const int8_t* p) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = p[i];
  return r;
}
inline I32x16 load_u4(const uint8_t* p, int shift) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = p[i] >> shift & 15;
  return r;
}
inline I32x16 add_where(I32x16 x, uint16_t mask, int value) {
  for (int i = 0; i < 16; ++i) x.v[i] += (mask >> i & 1) != 0 ? value : 0;
  return x;
}
inline U8x64 both16(const I32x16& x) {
  U8x64 r;
  for (int i = 0; i < 64; ++i) r.v[i] = static_cast<uint8_t>(x.v[i / 4] >> 8 * (i % 2));
  return r;
}
inline F32x16 powers_of_two(const I32x16& e) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = e.v[i] < 2 ? 0x200000u << e.v[i] : static_cast<uint32_t>(e.v[i] - 1) << 23;
    memcpy(&r.v[i], &bits, 4);
  }
  return r;
}
inline F32x16 halves_of_e4m3(const I32x16& x) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) {
    const int exponent = x.v[i] >> 3 & 15, mantissa = x.v[i] & 7;
    float value = static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa) * 0x1p-10f;
    if (exponent > 1) value *= static_cast<float>(1 << (exponent - 1));
    r.v[i] = x.v[i] == 0x7f ? 0.0f : value;
  }
  return r;
}
template <int kBits>
inline void look_up_points(const uint16_t* grid, const uint8_t* indices, U8x64 (&nibbles)[4]) {
  for (int i = 0; i < 64; ++i) {
    int index = indices[i];
    for (int bit = 8; bit < kBits; ++bit) index |= (indices[8 * bit + i / 8] >> i % 8 & 1) << bit;
    const int point = grid[index];
    uint8_t* to = nibbles[i / 32 * 2 + i % 2].v + i % 32 / 2 * 4;
    for (int n = 0; n < 4; ++n) to[n] = static_cast<uint8_t>(point >> (8 * (n % 2) + 4 * (n / 2)));
  }
}

struct I8x4 {
  int8_t v[4];

  static I8x4 load(const uint8_t* p) {
    I8x4 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
  }
};

inline void store_bytes(const I32x16& x, int8_t* p) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(x.v[i]);
}
inline I32x16 add(const I32x16& x, const I32x16& y) {
  I32x16 r;
  for (int lane = 0; lane < 16; ++lane) r.v[lane] = x.v[lane] + y.v[lane];
  return r;
}

template <class Block>
struct BlockDot : Int32Start<Block> {
  I32x16 sum;

  void start(const uint8_t* word) {
    int32_t value = 0;
    if constexpr (BlockDot::kStart != StartKind::none) memcpy(&value, word, 4);
    sum = I32x16::broadcast(value);
  }
  void add(const U8x64& codes, I8x4 a) {
    for (int lane = 0; lane < 16; ++lane)
      for (int i = 0; i < 4; ++i) sum.v[lane] += codes.v[4 * lane + i] * a.v[i];
  }
  F32x16 finish(const uint8_t* /*word*/) const { return to_f32(sum); }
  I32x16 scaled(const Factors& factors) const {
    I32x16 r;
    for (int lane = 0; lane < 16; ++lane) r.v[lane] = sum.v[lane] * factors.v[lane];
    return r;
  }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
