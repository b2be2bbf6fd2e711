// Code shared by tq1_0 and tq2_0: encodes 256 values as a scale and trits.
#pragma once

#include "tessera/quant/formats/magnitudes.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr int kTernaryElements = 256;

struct TernaryBlock {
  uint16_t d;                       // f16
  uint8_t trits[kTernaryElements];  // 0, 1, 2 for -d, 0, d
};

/// Values of magnitude >= threshold become +-d.
inline void store_trits(const float* x, float threshold, TernaryBlock& block) {
  for (int i = 0; i < kTernaryElements; ++i)
    block.trits[i] = static_cast<uint8_t>(1 + (x[i] >= threshold) - (x[i] <= -threshold));
}

inline TernaryBlock search_ternary(const float* x, const float* weights) {
  const float d = search_ternary_scale(Magnitudes<kTernaryElements>(x, weights));
  TernaryBlock block;
  block.d = f32_to_f16(d);
  store_trits(x, d > 0.0f ? 0.5f * d : __builtin_inff(), block);
  return block;
}

/// ggml's rule: d is the largest magnitude, and x / d is rounded half away from zero.
inline TernaryBlock compat_ternary(const float* x) {
  int32_t largest_bits = 0;
  for (int i = 0; i < kTernaryElements; ++i) {
    const float magnitude = __builtin_fabsf(x[i]);
    const auto bits = static_cast<int32_t>(magnitude >= 0.0f ? bits_of(magnitude) : 0u);  // a NaN counts as 0
    largest_bits = bits > largest_bits ? bits : largest_bits;
  }
  const float d = float_of(static_cast<uint32_t>(largest_bits)), inverse = d != 0.0f ? 1.0f / d : 0.0f;
  float scaled[kTernaryElements];
  for (int i = 0; i < kTernaryElements; ++i) scaled[i] = x[i] * inverse;
  TernaryBlock block;
  block.d = f32_to_f16(d);
  store_trits(scaled, 0.5f, block);
  return block;
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
