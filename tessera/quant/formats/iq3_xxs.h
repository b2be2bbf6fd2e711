// iq3_xxs: 256 elements, a point of 256 for each 4, signs of each 8 even in number, a 4-bit scale for each 32.
// Value = d * (2 s + 1) / 4 * grid value, negated by its sign bit.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockIQ3_XXS {
  static constexpr int kElements = block_size(DType::iq3_xxs).elements;

  uint16_t d;      // f16
  uint8_t qs[64];  // points, one for each 4
  // For each 32, in 16-bit halves: four sign indices (7 bits each, lowest first) and s (4 bits).
  uint16_t signs_and_scale[8][2];
};
static_assert(sizeof(BlockIQ3_XXS) == block_size(DType::iq3_xxs).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
