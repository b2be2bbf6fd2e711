// q3_k: 256 elements in 16 sub-blocks of 16, value = d * ls * code with signed 6-bit scales and codes of -4..3.
// Element 128h + 32j + l has the low bits of code + 4 at shift 2j of qs[32h + l], the high one at 4h + j of hmask[l].
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ3_K {
  static constexpr int kElements = block_size(DType::q3_k).elements;

  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];  // ls + 32 of sub-block b: low 4 bits in b % 8, shift 4 (b / 8); high 2 in 8 + b % 4, 2 (b / 4)
  uint16_t d;          // f16
};
static_assert(sizeof(BlockQ3_K) == block_size(DType::q3_k).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
