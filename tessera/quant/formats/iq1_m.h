// iq1_m: 256 elements, a point of 2048 and the sign of the shift for each 8, a 3-bit scale for each 16.
// Value = d * (2 s + 1) * (grid value +- 1/8).
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockIQ1_M {
  static constexpr int kElements = block_size(DType::iq1_m).elements;

  uint8_t qs[32];      // low bits of the points, one for each 8
  uint8_t qh[16];      // nibbles, one for each 8: bits 8 to 10 of the point, 1 where the shift is down
  uint16_t scales[4];  // four s (3 bits each, lowest first), then four bits of d (f16, lowest first)
};
static_assert(sizeof(BlockIQ1_M) == block_size(DType::iq1_m).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
