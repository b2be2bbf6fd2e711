// f16 and bf16 numbers of blocks.
#pragma once

#include "tessera/isa/half.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

using isa::TESSERA_ISA_NAMESPACE::bf16_to_f32;
using isa::TESSERA_ISA_NAMESPACE::bits_of;
using isa::TESSERA_ISA_NAMESPACE::f16_to_f32;
using isa::TESSERA_ISA_NAMESPACE::f32_to_bf16;
using isa::TESSERA_ISA_NAMESPACE::f32_to_f16;
using isa::TESSERA_ISA_NAMESPACE::float_of;

/// f as f16; infinite scales are clamped to the largest finite f16.
inline uint16_t finite_f16(float f) {
  const uint16_t h = f32_to_f16(f);
  return (h & 0x7fffu) < 0x7c00u ? h : static_cast<uint16_t>((h & 0x8000u) | 0x7bffu);
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
