// Rows of plain floats: f32, f16, bf16. Entries of quant/formats.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::quant {

void quantize_row_f32(const float* x, int64_t n, std::byte* row);
void dequantize_row_f32(const std::byte* row, int64_t n, float* out);

/// Rounds to nearest even; overflow gives infinity, a NaN stays one.
void quantize_row_f16(const float* x, int64_t n, std::byte* row);
void dequantize_row_f16(const std::byte* row, int64_t n, float* out);

/// As f16; subnormals are kept.
void quantize_row_bf16(const float* x, int64_t n, std::byte* row);
void dequantize_row_bf16(const std::byte* row, int64_t n, float* out);

}  // namespace tessera::quant
