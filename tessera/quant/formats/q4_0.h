// q4_0: 32 elements with one f16 scale, value = d * (code - 8), codes of four bits.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ4_0 {
  static constexpr int kElements = block_size(DType::q4_0).elements;

  uint16_t d;      // f16
  uint8_t qs[16];  // byte j: element j in the low nibble, j + 16 in the high nibble
};
static_assert(sizeof(BlockQ4_0) == block_size(DType::q4_0).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
