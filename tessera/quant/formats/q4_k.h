// q4_k: 256 elements in 8 sub-blocks of 32, value = d * ls * code - dmin * lm with 6-bit scales and 4-bit codes.
// Sub-blocks 2c and 2c + 1 are the low and the high nibbles of qs[32c ...].
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ4_K {
  static constexpr int kElements = block_size(DType::q4_k).elements;

  uint16_t d, dmin;    // f16
  uint8_t scales[12];  // k_scales.h
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == block_size(DType::q4_k).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
