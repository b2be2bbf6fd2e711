// iq2_s: 256 elements, a point of 1024 for each 8, all their signs, a 4-bit scale for each 16.
// Value = d * (2 s + 1) / 8 * grid value, negated by its sign bit.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockIQ2_S {
  static constexpr int kElements = block_size(DType::iq2_s).elements;

  uint16_t d;      // f16
  uint8_t qs[32];  // low bits of the points, one for each 8
  uint8_t signs[32];
  uint8_t qh[8];      // bits 8 and 9 of four points, lowest first
  uint8_t scales[8];  // nibbles: s of each 16
};
static_assert(sizeof(BlockIQ2_S) == block_size(DType::iq2_s).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
