// q6_k: 256 elements in 16 sub-blocks of 16, value = d * scale * (code - 32) with signed 8-bit scales and 6-bit codes.
// Element 128h + 32g + l has its low 4 bits in ql[64h + 32 (g % 2) + l] at shift 4 (g / 2), and its high 2 bits in
// qh[32h + l] at shift 2g.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ6_K {
  static constexpr int kElements = block_size(DType::q6_k).elements;

  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;  // f16
};
static_assert(sizeof(BlockQ6_K) == block_size(DType::q6_k).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
