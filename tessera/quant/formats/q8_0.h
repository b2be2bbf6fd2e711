// q8_0: 32 elements with one f16 scale, value = d * code, signed bytes.
#pragma once

#include <stdint.h>

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct BlockQ8_0 {
  static constexpr int kElements = 32;

  uint16_t d;  // f16
  int8_t qs[kElements];
};
static_assert(sizeof(BlockQ8_0) == 34);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
