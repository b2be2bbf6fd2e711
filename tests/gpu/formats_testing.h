// What the tests of weight formats on the device share: the formats, and matrices of every one.
#pragma once

#include "tessera/quant/formats.h"
#include "tests/gpu/gpu_support.h"

namespace tessera::testing {

/// Every format of weights that rows can be decoded from.
inline std::vector<DType> weight_formats() {
#ifdef TESSERA_SANITIZED  // sanitizers do not see into shaders, and compiling those takes three times as long
  return {DType::f32, DType::f16, DType::q4_0, DType::q4_k, DType::iq2_xxs, DType::mxfp4};
#else
  std::vector<DType> formats;
  for (const DTypeInfo& type : all_dtypes())
    if (const quant::Format* format = quant::find_format(type.dtype); format != nullptr) formats.push_back(type.dtype);
  return formats;
#endif
}

struct FormatMatrix {
  Bytes bytes;
  std::vector<float> values;
};

/// Rows of which every byte is used: encoded from random values of differing magnitudes.
inline FormatMatrix random_matrix(DType dtype, int64_t k, int64_t n, Rng& rng) {
  const quant::Format& format = *quant::find_format(dtype);
  const size_t bytes = row_bytes(dtype, k).value();
  FormatMatrix matrix{Bytes(bytes * static_cast<size_t>(n)), std::vector<float>(static_cast<size_t>(k * n))};
  for (int64_t row = 0; row < n; ++row) {
    const std::vector<float> values = random_values(rng, k, 0.1f * static_cast<float>(1 + row % 5));
    std::byte* to = matrix.bytes.data() + static_cast<size_t>(row) * bytes;
    format.quantize_row_compat(values.data(), nullptr, k, to);
    format.dequantize_row(to, k, matrix.values.data() + row * k);
  }
  return matrix;
}

}  // namespace tessera::testing
