// BlockDot of int8_dot.h for AVX-VNNI: vpdpbusd sums four products exactly, as in AVX-512, on vectors of half the size.
#pragma once

#include "tessera/cpu/kernels/int8_dot_avx2.h"
#include "tessera/cpu/kernels/int8_factors.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// 1 panel (two vectors) x 6 tokens: 12 sums, which hide a latency of 6 cycles, two vectors of codes and one of
// activations. The float sums are spilled once per block. 4 tokens reach 72 % of the int8 peak, 6 reach 75 %.
inline constexpr int kInt8Tokens = 6;
inline constexpr int kInt8Panels = 1;
inline constexpr int kInt8PanelTokens = kInt8Tokens;
inline constexpr int kInt8Unroll = 4;

template <class Block>
struct BlockDot : Int32Start<Block> {
  __m256i lo, hi;

  void start(const uint8_t* word) { lo = hi = start_of<BlockDot::kStart>(word); }
  void add(U8x64 codes, I8x4 a) {
    lo = _mm256_dpbusd_avx_epi32(lo, codes.lo, a.v);
    hi = _mm256_dpbusd_avx_epi32(hi, codes.hi, a.v);
  }
  F32x16 finish(const uint8_t* /*word*/) const { return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)}; }
  I32x16 scaled(Factors factors) const {
    return {_mm256_mullo_epi32(lo, factors.lo), _mm256_mullo_epi32(hi, factors.hi)};
  }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
