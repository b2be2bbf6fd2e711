// q8_0: 32 elements with one f16 scale, value = d * code, signed bytes.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ8_0 {
  static constexpr int kElements = block_size(DType::q8_0).elements;

  uint16_t d;  // f16
  int8_t qs[kElements];
};
static_assert(sizeof(BlockQ8_0) == block_size(DType::q8_0).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
