// q5_k: 256 elements in 8 sub-blocks of 32, value = d * ls * code - dmin * lm with 6-bit scales and 5-bit codes.
// The low 4 bits are stored as in q4_k. The fifth bit of element l of sub-block b is bit b of qh[l].
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ5_K {
  static constexpr int kElements = block_size(DType::q5_k).elements;

  uint16_t d, dmin;    // f16
  uint8_t scales[12];  // k_scales.h
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == block_size(DType::q5_k).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
