// The storage formats of weights: one row per dtype with its scalar encoder and decoder. These define what
// the bytes mean; every fast kernel is tested against them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/tensor/dtype.h"

namespace tessera::quant {

struct Format {
  /// Encodes n floats (whole blocks of the dtype) into a row. Deterministic; any bit pattern is accepted.
  void (*quantize_row)(const float* x, int64_t n, std::byte* row);
  /// Decodes a row of n elements (whole blocks), exactly as the format defines each value in f32.
  void (*dequantize_row)(const std::byte* row, int64_t n, float* out);
};

/// The format of a dtype, or null where it is no weight format or not built yet.
const Format* find_format(DType dtype);

}  // namespace tessera::quant
