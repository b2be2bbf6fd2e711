// Builds a model file of random f32 weights, and keeps the weights for the reference computations of tests.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/gguf/writer.h"
#include "tests/support/testing.h"

namespace tessera::testing {

class RandomFile {
 public:
  RandomFile(std::string architecture, uint64_t seed) : architecture_(std::move(architecture)), rng_(seed) {
    builder.set("general.architecture", architecture_);
  }

  const std::string& architecture() const { return architecture_; }

  /// Adds a tensor with values in [offset - limit, offset + limit). For matrices, the range is scaled so that products
  /// are of order 1.
  void add(const std::string& name, const Shape& shape, float limit = 1.0f, float offset = 0.0f) {
    std::vector<float> values(static_cast<size_t>(shape.n_elements()));
    const float scale = shape[1] > 1 ? std::sqrt(3.0f / static_cast<float>(shape[0])) : 1.0f;
    for (float& v : values) v = offset + scale * rng_.next_float(-limit, limit);
    set(name, shape, std::move(values));
  }
  void set(const std::string& name, const Shape& shape, std::vector<float> values) {
    weights[name] = std::move(values);
    shapes[name] = shape;
  }

  std::string write(const std::string& name) {
    std::vector<std::vector<std::byte>> data;
    const auto add_bytes = [&](const std::string& tensor, DType dtype, std::span<const std::byte> bytes) {
      EXPECT_OK(builder.add_tensor(tensor, dtype, shapes[tensor]));
      data.emplace_back(bytes.begin(), bytes.end());
    };
    for (const auto& [tensor, values] : weights) add_bytes(tensor, DType::f32, std::as_bytes(std::span(values)));
    for (const auto& [tensor, values] : integers) add_bytes(tensor, DType::i32, std::as_bytes(std::span(values)));
    const std::vector<std::span<const std::byte>> spans(data.begin(), data.end());
    const auto bytes = gguf_to_bytes(builder, spans);
    EXPECT_OK(bytes);
    return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  }

  GgufBuilder builder;
  std::map<std::string, std::vector<float>> weights;
  std::map<std::string, std::vector<int32_t>> integers;  // other tensors, of integers
  std::map<std::string, Shape> shapes;

 private:
  std::string architecture_;
  Rng rng_;
};

}  // namespace tessera::testing
