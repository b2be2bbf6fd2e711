// iq2_xs: 256 elements, a point of 512 for each 8, their signs even in number, a 4-bit scale for each 16.
// Value = d * (2 s + 1) / 8 * grid value, negated by its sign bit.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockIQ2_XS {
  static constexpr int kElements = block_size(DType::iq2_xs).elements;

  uint16_t d;         // f16
  uint16_t qs[32];    // for each 8: 9 bits of point, 7 bits of sign index
  uint8_t scales[8];  // nibbles: s of each 16
};
static_assert(sizeof(BlockIQ2_XS) == block_size(DType::iq2_xs).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
