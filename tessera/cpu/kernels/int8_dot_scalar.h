// int8_dot.h for any CPU: plain loops that the compiler may vectorise.
#pragma once

#include <stdint.h>
#include <string.h>

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

inline constexpr int kInt8Tokens = 2;
inline constexpr int kInt8Panels = 1;
inline constexpr int kInt8DecodePanels = 2;
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

/// The low and the high nibbles of 64 bytes.
inline void nibbles(const uint8_t* p, U8x64& low, U8x64& high) {
  for (int i = 0; i < 64; ++i) {
    low.v[i] = p[i] & 0x0f;
    high.v[i] = static_cast<uint8_t>(p[i] >> 4);
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

template <int kMaxCode>
struct BlockDot {
  static constexpr int kBias = 0;
  I32x16 sum;

  void start(const uint8_t* seed) {
    int32_t value;
    memcpy(&value, seed, 4);
    sum = I32x16::broadcast(value);
  }
  void add(const U8x64& codes, I8x4 a) {
    for (int lane = 0; lane < 16; ++lane)
      for (int i = 0; i < 4; ++i) sum.v[lane] += codes.v[4 * lane + i] * a.v[i];
  }
  F32x16 finish(const uint8_t* /*seed*/) const { return to_f32(sum); }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
