// q4_0: 32 elements with one f16 scale, value = d * (code - 8), codes of four bits. Entry of quant/formats.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::quant {

struct BlockQ4_0 {
  uint16_t d;      // f16
  uint8_t qs[16];  // byte j: element j in the low nibble, j + 16 in the high nibble
};
static_assert(sizeof(BlockQ4_0) == 18);

/// d = m / -8 for the element m of largest magnitude (the first one), so that m is representable and 0 is
/// exact. n is a multiple of 32.
void quantize_row_q4_0(const float* x, int64_t n, std::byte* row);
void dequantize_row_q4_0(const std::byte* row, int64_t n, float* out);

}  // namespace tessera::quant
