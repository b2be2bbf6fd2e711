// tq2_0: 256 elements with one f16 scale, value = d * (code - 1), codes of two bits.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockTQ2_0 {
  static constexpr int kElements = block_size(DType::tq2_0).elements;

  uint8_t qs[64];  // byte 32h + m: element 128h + 32n + m at bit 2n
  uint16_t d;      // f16
};
static_assert(sizeof(BlockTQ2_0) == block_size(DType::tq2_0).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
