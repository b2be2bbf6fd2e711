// iq4_nl: 32 elements with one f16 scale, value = d * kIQ4Levels[code], codes of four bits.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockIQ4_NL {
  static constexpr int kElements = block_size(DType::iq4_nl).elements;

  uint16_t d;      // f16
  uint8_t qs[16];  // byte j: element j in the low nibble, j + 16 in the high nibble
};
static_assert(sizeof(BlockIQ4_NL) == block_size(DType::iq4_nl).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
