// int8_dot.h for AVX-512 with VNNI: vpdpbusd adds four products per lane to an int32 accumulator.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// 2 panels x 6 tokens: 12 int and 12 float accumulators, 4 weight and 2 activation vectors of 32 registers.
inline constexpr int kInt8Tokens = 6;
inline constexpr int kInt8Panels = 2;
inline constexpr int kInt8DecodePanels = 4;
inline constexpr int kInt8Unroll = 4;

struct U8x64 {
  __m512i v;

  static U8x64 load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  void store(uint8_t* p) const { _mm512_storeu_si512(p, v); }
};

/// The low and the high nibbles of 64 bytes.
inline void nibbles(const uint8_t* p, U8x64& low, U8x64& high) {
  const __m512i mask = _mm512_set1_epi8(0x0f), packed = _mm512_loadu_si512(p);
  low = {_mm512_and_si512(packed, mask)};
  high = {_mm512_and_si512(_mm512_srli_epi16(packed, 4), mask)};
}

struct I8x4 {
  __m512i v;

  static I8x4 load(const uint8_t* p) {
    int32_t word;
    memcpy(&word, p, 4);
    return {_mm512_set1_epi32(word)};
  }
};

template <int kMaxCode>
struct BlockDot {
  static constexpr int kBias = 0;
  __m512i sum;

  void start(const uint8_t* seed) { sum = I8x4::load(seed).v; }
  void add(U8x64 codes, I8x4 a) { sum = _mm512_dpbusd_epi32(sum, codes.v, a.v); }
  F32x16 finish(const uint8_t* /*seed*/) const { return {_mm512_cvtepi32_ps(sum)}; }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
