// Factors of int8_dot.h for instruction sets that multiply the int32 lanes of sums.
#pragma once

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

inline constexpr bool kUnpacksProducts = true;

using Factors = I32x16;
inline Factors make_factors(const Factors& lanes) { return lanes; }

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
