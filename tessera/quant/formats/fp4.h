// E2M1, the four-bit floats of mxfp4 and nvfp4, doubled so that they are integers.
#pragma once

#include "tessera/quant/formats/groups.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr int8_t kFP4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// The level nearest to a magnitude; 12 for magnitudes above 12 and for NaN. Few operations, for the searches: adding
/// and subtracting a power of two rounds to the spacing of the levels, which is 1 below 4, 2 below 8, then 4.
[[gnu::always_inline]] inline F32x16 fp4_nearest(F32x16 magnitude) {
  const F32x16 v = min(magnitude, broadcast(12.0f));
  const F32x16 magic = max(from_bits(bits_of(v) & 0x7f800000), broadcast(2.0f)) * 0x1.8p22f;
  return (v + magic) - magic;
}

/// Codes of the values v * scale nearest to x, scale >= 0. On ties the first: the smaller magnitude, and +0.
[[gnu::always_inline]] inline I32x16 fp4_codes(F32x16 x, F32x16 scale) {
  constexpr float kMiddles[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};
  const F32x16 magnitude = abs(x);
  I32x16 code = {};
#pragma GCC unroll 7
  for (int k = 0; k < 7; ++k) code -= magnitude > kMiddles[k] * scale;
  return select((scale > 0.0f) & (code > 0), code | (8 & (x < 0.0f)), I32x16{});
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
