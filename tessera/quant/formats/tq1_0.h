// tq1_0: 256 elements with one f16 scale, value = d * (trit - 1), five trits in a byte.
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockTQ1_0 {
  static constexpr int kElements = block_size(DType::tq1_0).elements;

  uint8_t qs[48];  // byte m < 32: trits of elements 32n + m, n < 5; byte 32 + m: of 160 + 16n + m
  uint8_t qh[4];   // byte j: trits of elements 240 + 4n + j, n < 4
  uint16_t d;      // f16
};
static_assert(sizeof(BlockTQ1_0) == block_size(DType::tq1_0).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
