// nvfp4: 64 elements of E2M1 with a UE4M3 scale per 16, value = scale / 2 * kFP4Levels[code].
#pragma once

#include <stdint.h>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockNVFP4 {
  static constexpr int kElements = block_size(DType::nvfp4).elements;

  uint8_t scales[4];  // of elements 16s .. 16s + 15; 0 and 0x7f decode to 0
  uint8_t qs[32];     // byte 8s + j: element 16s + j in the low nibble, 16s + 8 + j in the high nibble
};
static_assert(sizeof(BlockNVFP4) == block_size(DType::nvfp4).bytes);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
