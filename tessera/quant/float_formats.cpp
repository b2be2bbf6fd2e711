// Rows of f32 are copied; rows of 16-bit floats are converted value by value (base/half.h).
#include "tessera/quant/float_formats.h"

#include <cstring>

#include "tessera/base/half.h"

namespace tessera::quant {

namespace {

template <uint16_t (*kEncode)(float)>
void encode_row(const float* x, int64_t n, std::byte* row) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half = kEncode(x[i]);
    std::memcpy(row + 2 * i, &half, 2);
  }
}

template <float (*kDecode)(uint16_t)>
void decode_row(const std::byte* row, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, row + 2 * i, 2);
    out[i] = kDecode(half);
  }
}

}  // namespace

void quantize_row_f32(const float* x, int64_t n, std::byte* row) {
  std::memcpy(row, x, static_cast<size_t>(n) * sizeof(float));
}
void dequantize_row_f32(const std::byte* row, int64_t n, float* out) {
  std::memcpy(out, row, static_cast<size_t>(n) * sizeof(float));
}

void quantize_row_f16(const float* x, int64_t n, std::byte* row) { encode_row<f32_to_f16>(x, n, row); }
void dequantize_row_f16(const std::byte* row, int64_t n, float* out) { decode_row<f16_to_f32>(row, n, out); }

void quantize_row_bf16(const float* x, int64_t n, std::byte* row) { encode_row<f32_to_bf16>(x, n, row); }
void dequantize_row_bf16(const std::byte* row, int64_t n, float* out) { decode_row<bf16_to_f32>(row, n, out); }

}  // namespace tessera::quant
