// The formats of one instruction set, each defined by the source of its name; table.cpp gathers them. Seen only by the
// sources of this folder, which are compiled once per set (cmake/isa.cmake).
#pragma once

#include "tessera/quant/format.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

extern const Format kF32, kF16, kBF16;
extern const Format kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K;
extern const Format kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0;
extern const Format kIQ4_NL, kIQ4_XS, kMXFP4, kNVFP4;
extern const Format kQ1_0, kQ2_0, kTQ1_0, kTQ2_0;
extern const Format kIQ2_XXS, kIQ2_XS, kIQ2_S, kIQ3_XXS, kIQ3_S, kIQ1_S, kIQ1_M;

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
