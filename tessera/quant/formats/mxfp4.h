// mxfp4: 32 elements of E2M1 with one E8M0 scale, value = 2^(e - 128) * kFP4Levels[code].
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockMXFP4 {
  static constexpr int kElements = block_size(DType::mxfp4).elements;

  uint8_t e;       // 255 is a NaN in the OCP specification: never written, decoded as the power of two
  uint8_t qs[16];  // byte j: element j in the low nibble, j + 16 in the high nibble
};
static_assert(sizeof(BlockMXFP4) == block_size(DType::mxfp4).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
