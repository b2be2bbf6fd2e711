// Floats of 8 bits, as checkpoints store them (Micikevicius et al. 2022, "FP8 Formats for Deep Learning"; Open Compute
// Project, "Microscaling Formats 1.0"). All their values are exact in 32 bits.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace tessera::convert {

/// The kind without infinities ("fn"): 0x7f and 0xff are NaN, and the largest value is 448.
constexpr float f8_e4m3_to_f32(uint8_t bits) {
  const uint32_t exponent = (bits >> 3) & 0xfu, mantissa = bits & 7u;
  const float sign = (bits & 0x80u) != 0 ? -1.0f : 1.0f;
  if (exponent == 0xf && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-9f;
  return sign * std::bit_cast<float>(((exponent + 120) << 23) | (mantissa << 20));
}

/// With infinities and NaN as in IEEE 754; the largest value is 57344.
constexpr float f8_e5m2_to_f32(uint8_t bits) {
  const uint32_t exponent = (bits >> 2) & 0x1fu, mantissa = bits & 3u;
  const float sign = (bits & 0x80u) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f && mantissa != 0) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0x1f) return sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-16f;
  return sign * std::bit_cast<float>(((exponent + 112) << 23) | (mantissa << 21));
}

/// A power of two, for scales: 2^(bits - 127); 0xff is NaN.
constexpr float f8_e8m0_to_f32(uint8_t bits) {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  if (bits == 0) return 0x1p-127f;
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 23);
}

}  // namespace tessera::convert
