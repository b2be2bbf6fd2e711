// iq4_xs: 256 elements in 8 sub-blocks, value = d * (scale - 32) * kIQ4Levels[code], scales of six bits.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockIQ4_XS {
  static constexpr int kElements = block_size(DType::iq4_xs).elements;

  uint16_t d;           // f16
  uint16_t scales_h;    // the upper two bits of sub-block i's scale at bit 2i
  uint8_t scales_l[4];  // the lower four: nibble i % 2 of byte i / 2
  uint8_t qs[128];      // 16 bytes per sub-block: element j in the low nibble of byte j, j + 16 in the high nibble
};
static_assert(sizeof(BlockIQ4_XS) == block_size(DType::iq4_xs).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
