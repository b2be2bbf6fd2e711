// q2_k: 256 elements in 16 sub-blocks of 16, value = d * ls * code - dmin * lm with 4-bit scales and 2-bit codes.
// Element 128h + 32j + l has its code at shift 2j of qs[32h + l].
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ2_K {
  static constexpr int kElements = block_size(DType::q2_k).elements;

  uint8_t scales[16];  // ls, lm << 4
  uint8_t qs[64];
  uint16_t d, dmin;  // f16
};
static_assert(sizeof(BlockQ2_K) == block_size(DType::q2_k).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
