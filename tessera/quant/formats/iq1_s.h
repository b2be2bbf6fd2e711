// iq1_s: 256 elements, a point of 2048 for each 8, a 3-bit scale and the sign of the shift for each 32.
// Value = d * (2 s + 1) * (grid value +- 1/8).
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockIQ1_S {
  static constexpr int kElements = block_size(DType::iq1_s).elements;

  uint16_t d;      // f16
  uint8_t qs[32];  // low bits of the points, one for each 8
  uint16_t qh[8];  // for each 32: bits 8 to 10 of four points, lowest first, s (3 bits), 1 where the shift is down
};
static_assert(sizeof(BlockIQ1_S) == block_size(DType::iq1_s).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
