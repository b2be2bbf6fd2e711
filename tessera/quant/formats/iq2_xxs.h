// iq2_xxs: 256 elements, a point of 256 for each 8, their signs even in number, a 4-bit scale for each 32.
// Value = d * (2 s + 1) / 8 * grid value, negated by its sign bit.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockIQ2_XXS {
  static constexpr int kElements = block_size(DType::iq2_xxs).elements;

  uint16_t d;  // f16
  // For each 32 elements, in 16-bit halves since rows have no alignment: the bytes of four points, then their sign
  // indices (7 bits each, lowest first) and s (4 bits).
  uint16_t qs[8][4];
};
static_assert(sizeof(BlockIQ2_XXS) == block_size(DType::iq2_xxs).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
