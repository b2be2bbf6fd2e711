// Blocks are copied in and out: rows in a file have no alignment.
#include "tessera/quant/q8_0.h"

#include <cmath>
#include <cstring>

#include "tessera/base/half.h"

namespace tessera::quant {

namespace {

constexpr int kElements = 32;

/// v rounded half away from zero; what is not in the range of codes becomes its nearest end, a NaN 0.
int8_t code_of(float v) {
  if (std::isnan(v)) return 0;
  const float rounded = std::round(v);
  if (rounded <= -127.0f) return -127;
  return rounded >= 127.0f ? int8_t{127} : static_cast<int8_t>(rounded);
}

}  // namespace

void quantize_row_q8_0(const float* x, int64_t n, std::byte* row) {
  for (int64_t b = 0; b < n / kElements; ++b, x += kElements, row += sizeof(BlockQ8_0)) {
    float largest = 0.0f;
    for (int i = 0; i < kElements; ++i) largest = std::fmax(largest, std::fabs(x[i]));
    const float d = largest / 127.0f;
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;

    BlockQ8_0 block;
    block.d = f32_to_f16(d);
    for (int i = 0; i < kElements; ++i) block.qs[i] = code_of(x[i] * inverse);
    std::memcpy(row, &block, sizeof block);
  }
}

void dequantize_row_q8_0(const std::byte* row, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kElements; ++b, row += sizeof(BlockQ8_0), out += kElements) {
    BlockQ8_0 block;
    std::memcpy(&block, row, sizeof block);
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < kElements; ++i) out[i] = d * static_cast<float>(block.qs[i]);
  }
}

}  // namespace tessera::quant
