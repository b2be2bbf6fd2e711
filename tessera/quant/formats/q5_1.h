// q5_1: 32 elements with an f16 scale and an f16 offset, value = d * code + m, codes of five bits.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ5_1 {
  static constexpr int kElements = block_size(DType::q5_1).elements;

  uint16_t d, m;   // f16
  uint8_t qh[4];   // bit i of the little-endian word: the fifth bit of element i
  uint8_t qs[16];  // the lower four bits: byte j holds element j in the low nibble, j + 16 in the high nibble
};
static_assert(sizeof(BlockQ5_1) == block_size(DType::q5_1).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
