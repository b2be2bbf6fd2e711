// Helpers for the tests of matrix multiplication in graphs: every type of weights, in either memory.
#pragma once

#include <vector>

#include "tessera/quant/formats.h"
#include "tests/support/graph_runner.h"

namespace tessera::testing {

/// Every type of weights.
inline std::vector<DType> weight_types() {
  std::vector<DType> types;
  for (const DTypeInfo& info : all_dtypes())
    if (quant::find_format(info.dtype) != nullptr) types.push_back(info.dtype);
  return types;
}

/// Random weights in file layout, and their values.
struct Weights {
  Weights(DType dtype, int64_t k, int64_t n_rows, uint64_t seed)
      : dtype(dtype), shape{k, n_rows}, values(static_cast<size_t>(k * n_rows)) {
    Rng rng(seed);
    const std::vector<float> exact = random_values(rng, k * n_rows);
    bytes.resize(nbytes(dtype, shape).value());
    quant::find_format(dtype)->quantize_row_compat(exact.data(), nullptr, k * n_rows, bytes.data());
    quant::find_format(dtype)->dequantize_row(bytes.data(), k * n_rows, values.data());
  }
  DType dtype;
  Shape shape;
  Bytes bytes;
  std::vector<float> values;
};

/// The relative error of one product. f16 and bf16 kernels may round x to 8 bits of mantissa, int8 kernels to 7 bits of
/// a block's largest value. Random errors of k products add up like sqrt(k), while the bound here allows their sum.
inline double product_tolerance(DType dtype) { return dtype == DType::f32 ? 1e-6 : 1.0 / 128; }

inline const BufferType& type_for(const Device& device, bool is_packed, DType dtype, const Shape& shape) {
  return is_packed ? device.weight_buffer_type(Op::mul_mat, dtype, shape) : device.buffer_type();
}

}  // namespace tessera::testing
