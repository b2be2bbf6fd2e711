// The codes of iq1_s and iq1_m: a weight is scale * (g + delta), g in {-1, 0, 1} from a grid, delta +-1/8. In a panel,
// the code is 8 (g + delta) + 9, from 0 to 18, and the scale is an eighth of the format's scale.
#pragma once

#include "tessera/cpu/kernels/unpack/grids.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

inline constexpr int kIq1MaxCode = 18, kIq1Offset = 9;

inline constexpr int kIq1Levels[3] = {-1, 0, 1};
inline constexpr auto kIq1Grid = make_grid(codebooks::kIq1s, kIq1Levels);
inline constexpr GridCodes kIq1Codes =
    make_codes(kIq1Levels, [](int level, bool negative) { return 8 * level + (negative ? -1 : 1) + kIq1Offset; });

/// Sets bits 4r to 4r + 3 for each bit r.
inline uint64_t nibbles_of_bits(uint16_t rows) {
  uint64_t x = rows;
  x = (x | x << 24) & 0x000000ff000000ff;
  x = (x | x << 12) & 0x000f000f000f000f;
  x = (x | x << 6) & 0x0303030303030303;
  x = (x | x << 3) & 0x1111111111111111;
  return x * 15;
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
