// q8_0: 32 elements with one f16 scale, value = d * code, signed bytes. Entry of quant/formats.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::quant {

struct BlockQ8_0 {
  uint16_t d;  // f16
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

/// d = max|x| / 127, codes rounded half away from zero. n is a multiple of 32.
void quantize_row_q8_0(const float* x, int64_t n, std::byte* row);
void dequantize_row_q8_0(const std::byte* row, int64_t n, float* out);

}  // namespace tessera::quant
