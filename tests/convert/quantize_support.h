// Small models to quantize, and a check of the remaining files in a directory.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/convert/quantize.h"
#include "tests/support/testing.h"

namespace tessera::testing {

inline std::vector<float> normal_values(uint64_t seed, size_t n) {
  Rng rng(seed);
  std::vector<float> values(n);
  for (float& value : values) {
    value = 0;
    for (int i = 0; i < 4; ++i) value += rng.next_float(-0.5f, 0.5f);  // approximately a normal distribution
  }
  return values;
}

/// A model file of f32 tensors, built tensor by tensor.
struct SmallFile {
  GgufBuilder builder;
  std::vector<std::vector<float>> data;

  SmallFile() { builder.set("general.architecture", "llama"); }

  void add(const std::string& name, const Shape& shape, float scale = 1.0f) {
    ASSERT_OK(builder.add_tensor(name, DType::f32, shape));
    data.push_back(normal_values(data.size() + 1, static_cast<size_t>(shape.n_elements())));
    for (float& value : data.back()) value *= scale;
  }

  std::string write(const std::string& name) const {
    std::vector<std::span<const std::byte>> spans;
    for (const std::vector<float>& values : data) spans.push_back(std::as_bytes(std::span(values)));
    const auto bytes = gguf_to_bytes(builder, spans);
    EXPECT_OK(bytes);
    return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  }
};

/// Plans and writes with this many threads.
inline Result<> quantize_file(const std::string& input, const std::string& output,
                              const convert::QuantizeOptions& options, int n_threads = 2) {
  TESSERA_ASSIGN(const auto files, ModelFiles::open(input));
  TESSERA_ASSIGN(const auto plan, convert::plan_quantize(*files, options));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = n_threads}));
  const auto progress = [](float) { return true; };
  return convert::write_quantized(*files, plan, options, output, {*threads, nullptr, progress});
}

/// Files whose names begin with the name of this file: the file itself and incomplete ones.
inline size_t count_files_like(const std::string& path) {
  const std::filesystem::path like(path);
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(like.parent_path()))
    if (entry.path().filename().string().starts_with(like.filename().string())) ++n;
  return n;
}

}  // namespace tessera::testing
