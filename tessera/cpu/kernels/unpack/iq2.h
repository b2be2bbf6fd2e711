// The codes of iq2_xxs, iq2_xs and iq2_s: signed magnitudes of a grid.
#pragma once

#include "tessera/cpu/kernels/unpack/grids.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

inline constexpr int kIq2MaxCode = 107, kIq2Offset = 64;

inline constexpr int kIq2Levels[3] = {8, 25, 43};
inline constexpr GridCodes kIq2Codes = make_signed_codes(kIq2Levels, kIq2Offset);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
