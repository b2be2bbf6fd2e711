// The codes of iq1_s and iq1_m: a weight is scale * (g + delta), g in {-1, 0, 1} from a grid, delta +-1/8. A panel's
// code is 8 (g + delta) + 9, from 0 to 18, and its scale an eighth of the format's.
#pragma once

#include "tessera/cpu/kernels/unpack/grids.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

inline constexpr int kIq1MaxCode = 18, kIq1Offset = 9;

/// Two vectors of codes of eight columns; `negative` has the rows whose delta is -1/8.
inline void iq1_codes(I32x16 points, uint16_t negative, uint8_t (&first)[64], uint8_t (&second)[64]) {
  // Each byte of 8 g + 9 +- 1, as sums of bytes that cannot borrow: 8 (g + 1) + 0 or 2.
  constexpr int kOnes = 0x01010101;
  const U8x64 deltas = bytes_of(add_where(I32x16::broadcast(2 * kOnes), negative, -2 * kOnes));
  const U8x64 ones = bytes_of(I32x16::broadcast(kOnes));
  U8x64 a, b;
  gather(codebooks::kIq1s, points, a, b);
  add(shift_left(add(a, ones), 3), deltas).store(first);
  add(shift_left(add(b, ones), 3), deltas).store(second);
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
