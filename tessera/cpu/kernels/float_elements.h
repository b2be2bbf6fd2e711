// The types of float weights, for FloatMatmul (matmul_float.h).
#pragma once

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

struct ElementF32 {
  using Stored = float;
  static F32x16 load(const uint8_t* p) { return F32x16::load(reinterpret_cast<const float*>(p)); }
};

struct ElementF16 {
  using Stored = uint16_t;
  static F32x16 load(const uint8_t* p) { return F32x16::load_f16(reinterpret_cast<const uint16_t*>(p)); }
};

struct ElementBF16 {
  using Stored = uint16_t;
  static F32x16 load(const uint8_t* p) { return F32x16::load_bf16(reinterpret_cast<const uint16_t*>(p)); }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
