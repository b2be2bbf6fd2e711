// Adapter files for tests: random LoRA matrices for the weights of a model, control vectors, and files with a single
// error.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/gguf/split.h"
#include "tessera/gguf/writer.h"
#include "tessera/quant/formats.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// A file of small tensors with keys.
struct AdapterFile {
  GgufBuilder builder;
  std::vector<std::vector<std::byte>> data;
  Rng rng{11};

  static AdapterFile lora(std::string_view architecture, float alpha) {
    AdapterFile file;
    file.builder.set("general.architecture", architecture);
    file.builder.set("general.type", "adapter");
    file.builder.set("adapter.type", "lora");
    file.builder.set("adapter.lora.alpha", alpha);
    return file;
  }
  static AdapterFile control_vector() {
    AdapterFile file;
    file.builder.set("general.architecture", "controlvector");
    return file;
  }

  std::vector<float> random(int64_t n, float limit) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = rng.next_float(-limit, limit);
    return values;
  }

  void add(const std::string& name, const Shape& shape, const std::vector<float>& values, DType dtype = DType::f32) {
    EXPECT_OK(builder.add_tensor(name, dtype, shape));
    const auto n_bytes = nbytes(dtype, shape);
    EXPECT_OK(n_bytes);
    data.emplace_back(*n_bytes);
    quant::find_format(dtype)->quantize_row_compat(values.data(), nullptr, shape.n_elements(), data.back().data());
  }
  void add_random(const std::string& name, const Shape& shape, float limit, DType dtype = DType::f32) {
    add(name, shape, random(shape.n_elements(), limit), dtype);
  }

  /// Adds a pair for a weight. Its product is about `size` times a weight of unit variance.
  void add_pair(const GgufTensor& weight, int64_t rank, float size, DType dtype = DType::f32) {
    const std::string name(weight.name);
    const Shape& w = weight.shape;
    const bool is_table = name == "token_embd.weight";
    const float limit = std::sqrt(size / std::sqrt(static_cast<float>(rank * w[0])));
    add_random(name + ".lora_a", is_table ? Shape{rank, w[1]} : Shape{w[0], rank, w[2]}, limit, dtype);
    add_random(name + ".lora_b", is_table ? Shape{rank, w[0]} : Shape{rank, w[1], w[2]}, limit, dtype);
  }

  std::string write(const std::string& name) const {
    const std::vector<std::span<const std::byte>> spans(data.begin(), data.end());
    const auto bytes = gguf_to_bytes(builder, spans);
    EXPECT_OK(bytes);
    return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  }
};

/// Returns every matrix of a model, except names for which `leave_out` returns true.
inline std::vector<GgufTensor> matrices_of(const ModelFiles& model,
                                           const std::function<bool(std::string_view)>& leave_out = {}) {
  std::vector<GgufTensor> matrices;
  for (const ModelFiles::Tensor& tensor : model.tensors())
    if (tensor.info.shape[1] > 1 && tensor.info.name.ends_with(".weight") &&
        !(leave_out && leave_out(tensor.info.name)))
      matrices.push_back(tensor.info);
  return matrices;
}

/// Writes a random adapter for these weights of a model to a temporary file.
inline std::string write_lora(const std::string& model_path, const std::string& name, int64_t rank, float alpha,
                              uint64_t seed, const std::function<bool(std::string_view)>& leave_out = {},
                              DType dtype = DType::f32) {
  const auto model = ModelFiles::open(model_path);
  EXPECT_OK(model);
  const auto architecture = (*model)->metadata().get<std::string_view>("general.architecture");
  EXPECT_OK(architecture);
  AdapterFile file = AdapterFile::lora(*architecture, alpha);
  file.rng = Rng(seed);
  for (const GgufTensor& weight : matrices_of(**model, leave_out)) file.add_pair(weight, rank, 0.5f, dtype);
  return file.write(name);
}

}  // namespace tessera::testing
