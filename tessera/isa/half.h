// f16 and bf16 for the code of one instruction set: the conversions of base/half.h, which such sources must not
// include. Conversions to f32 are exact, conversions from f32 round to nearest even.
#pragma once

#include <stdint.h>
#include <string.h>

namespace tessera::isa::TESSERA_ISA_NAMESPACE {

inline uint32_t bits_of(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}
inline float float_of(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

/// Has no branches, so that the compiler can vectorise loops over it.
inline float f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fffu) << 13;
  const uint32_t scaled = bits_of(float_of(magnitude) * 0x1p112f);        // exact, subnormals too
  const uint32_t all_ones = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;  // infinity, NaN
  const uint32_t quiet = magnitude > 0x0f800000u ? 0x400000u : 0u;
  return float_of(sign | scaled | all_ones | quiet);
}

inline uint16_t f32_to_f16(float f) {
  const uint32_t bits = bits_of(f), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u)  // subnormal: a float addition rounds at 2^-24
    return static_cast<uint16_t>(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
  return static_cast<uint16_t>(sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13));
}

inline float bf16_to_f32(uint16_t h) { return float_of(static_cast<uint32_t>(h) << 16); }
inline uint16_t f32_to_bf16(float f) {
  const uint32_t bits = bits_of(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace tessera::isa::TESSERA_ISA_NAMESPACE
