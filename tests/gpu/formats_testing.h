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

/// Runs a product of k columns and n rows on memory for weights, in the default precision.
inline Result<std::vector<float>> product_of(DType dtype, int64_t k, int64_t n, const Bytes& weights,
                                             const std::vector<float>& x, const Device& device = *gpu_device()) {
  const int64_t n_tokens = static_cast<int64_t>(x.size()) / k;
  TESSERA_ASSIGN(const auto backend, device.create_backend({}));
  TESSERA_ASSIGN(const auto buffer, device.buffer_type().allocate(weights.size() + 256, BufferUsage::weights));
  TESSERA_ASSIGN(const Layout layout, contiguous_layout(dtype, {k, n}));
  Tensor tensor{{dtype, layout}, "w", &buffer->type(), buffer.get(), 0};
  TESSERA_TRY(buffer->set(tensor, 0, weights));
  GraphBuilder b;
  const Value input = b.input("x", DType::f32, {k, n_tokens});
  const Value output = b.output(b.mul_mat(b.tensor(tensor), input), "y");
  TESSERA_ASSIGN(Graph graph, std::move(b).finish());
  Executor executor(*backend);
  TESSERA_TRY(executor.reserve({&graph, 1}));
  TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
  TESSERA_TRY(set_input(*prepared, input, x));
  TESSERA_TRY(executor.run(*prepared));
  const Tensor& y = prepared->tensor(output.id());
  std::vector<float> values(static_cast<size_t>(n * n_tokens));
  TESSERA_TRY(y.buffer->get(y, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

/// The same in double precision.
inline std::vector<float> exact_product(const FormatMatrix& matrix, int64_t k, int64_t n, const std::vector<float>& x) {
  std::vector<float> y;
  for (size_t token = 0; token < x.size() / static_cast<size_t>(k); ++token)
    for (int64_t row = 0; row < n; ++row) {
      double sum = 0;
      for (size_t i = 0; i < static_cast<size_t>(k); ++i)
        sum += double{matrix.values[static_cast<size_t>(row * k) + i]} * x[token * static_cast<size_t>(k) + i];
      y.push_back(static_cast<float>(sum));
    }
  return y;
}

}  // namespace tessera::testing
