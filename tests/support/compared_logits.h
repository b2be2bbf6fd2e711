// Logits of a fixed text, compared between model files.
#pragma once

#include <string>
#include <vector>

#include "tests/support/engine_support.h"

namespace tessera::testing {

inline constexpr int32_t kComparedTokens = 24;

/// Returns the logits of a fixed text.
inline std::vector<float> logits_of_file(const std::string& path, int64_t n_ctx = 64) {
  const auto engine = load_engine(path);
  EXPECT_OK(engine);
  if (!engine) return {};
  const auto session = Session::create(*engine, {.n_ctx = n_ctx,
                                                 .n_outputs = kComparedTokens,
                                                 .type_k = DType::f32,
                                                 .type_v = DType::f32,
                                                 .threads = {.n_threads = 2}});
  EXPECT_OK(session);
  if (!session) return {};
  const auto logits = logits_of(**session, token_ids(**engine, kComparedTokens));
  EXPECT_OK(logits);
  return logits ? *logits : std::vector<float>{};
}

/// The squared error of `got` relative to the power of `want`.
inline double relative_squared_error(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  EXPECT_FALSE(want.empty());
  if (got.size() != want.size()) return 1;
  double error = 0, power = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    power += double{want[i]} * want[i];
  }
  return error / power;
}

/// The name of a tensor of a layer.
inline std::string in_layer(int il, const std::string& name) { return "blk." + std::to_string(il) + "." + name; }

}  // namespace tessera::testing
