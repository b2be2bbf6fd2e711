// iq3_s: 256 elements, a point of 512 for each 4, all their signs, a 4-bit scale for each 32.
// Value = d * (2 s + 1) * grid value, negated by its sign bit.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockIQ3_S {
  static constexpr int kElements = block_size(DType::iq3_s).elements;

  uint16_t d;      // f16
  uint8_t qs[64];  // low bits of the points, one for each 4
  uint8_t qh[8];   // bit 8 of eight points
  uint8_t signs[32];
  uint8_t scales[4];  // nibbles: s of each 32
};
static_assert(sizeof(BlockIQ3_S) == block_size(DType::iq3_s).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
