// Shared by the tests of libggml: handles that free themselves, and the log.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "tessera/llama/ggml/api.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// Collects the lines of the log while it lives.
class GgmlLog {
 public:
  GgmlLog() { tessera_ggml_log_set(add, this); }
  ~GgmlLog() { tessera_ggml_log_set(nullptr, nullptr); }
  GgmlLog(const GgmlLog&) = delete;
  GgmlLog& operator=(const GgmlLog&) = delete;

  std::string take() { return std::exchange(text_, {}); }

 private:
  static void add(int /*level*/, const char* text, void* user) { static_cast<GgmlLog*>(user)->text_ += text; }
  std::string text_;
};

/// Expects one line of the log, with this text in it, since the last one.
inline void expect_line(GgmlLog& log, const std::string& part) {
  const std::string text = log.take();
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' has no '" << part << "'";
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

using Gguf = std::unique_ptr<gguf_context, decltype(&tessera_gguf_free)>;
using GgmlTensors = std::unique_ptr<ggml_context, decltype(&tessera_ggml_free)>;

inline Gguf own_gguf(gguf_context* ctx) { return {ctx, tessera_gguf_free}; }
inline Gguf empty_gguf() { return own_gguf(tessera_gguf_init_empty()); }
inline Gguf parse_gguf(const std::string& bytes, gguf_init_params params = {true, nullptr}) {
  return own_gguf(tessera_gguf_init_from_buffer(bytes.data(), bytes.size(), params));
}

inline ggml_tensor make_tensor(const std::string& name, int32_t type, std::initializer_list<int64_t> extents,
                               void* data = nullptr) {
  ggml_tensor tensor{};
  tensor.type = type;
  std::fill(std::begin(tensor.ne), std::end(tensor.ne), 1);
  std::copy(extents.begin(), extents.end(), tensor.ne);
  name.copy(tensor.name, sizeof tensor.name - 1);
  tensor.data = data;
  return tensor;
}

}  // namespace tessera::testing
