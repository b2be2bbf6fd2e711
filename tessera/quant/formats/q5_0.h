// q5_0: 32 elements with one f16 scale, value = d * (code - 16), codes of five bits.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ5_0 {
  static constexpr int kElements = block_size(DType::q5_0).elements;

  uint16_t d;      // f16
  uint8_t qh[4];   // bit i of the little-endian word: the fifth bit of element i
  uint8_t qs[16];  // the lower four bits: byte j holds element j in the low nibble, j + 16 in the high nibble
};
static_assert(sizeof(BlockQ5_0) == block_size(DType::q5_0).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
