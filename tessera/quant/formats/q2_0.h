// q2_0: 64 elements with one f16 scale, value = d * (code - 1), codes of two bits.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ2_0 {
  static constexpr int kElements = block_size(DType::q2_0).elements;

  uint16_t d;      // f16
  uint8_t qs[16];  // element j at bit 2 (j % 4) of byte j / 4
};
static_assert(sizeof(BlockQ2_0) == block_size(DType::q2_0).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
