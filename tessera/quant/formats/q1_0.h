// q1_0: 128 elements with one f16 scale, value = +d or -d.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ1_0 {
  static constexpr int kElements = block_size(DType::q1_0).elements;

  uint16_t d;      // f16
  uint8_t qs[16];  // bit j % 8 of byte j / 8 set: +d
};
static_assert(sizeof(BlockQ1_0) == block_size(DType::q1_0).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
