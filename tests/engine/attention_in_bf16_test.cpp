// Sessions whose attention multiplies in bf16.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kBf16Tokens = 150;

class AttentionInBf16 : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(CacheTypes, AttentionInBf16, ::testing::Values(DType::f32, DType::f16, DType::q8_0),
                         [](const auto& instance) { return std::string(tessera::info(instance.param).name); });

SessionOptions bf16_options(DType cache, int64_t n_ubatch, int n_threads) {
  return {.n_ctx = 192,
          .n_ubatch = n_ubatch,
          .n_outputs = kBf16Tokens,
          .type_k = cache,
          .type_v = cache,
          .attention = AttentionPrecision::bf16,
          .threads = {.n_threads = n_threads}};
}

TEST_P(AttentionInBf16, BitsDoNotDependOnMicroBatchesAndThreads) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model("llama-dense")));
  std::vector<float> expected;
  for (const auto& [n_ubatch, n_threads] : {std::pair<int64_t, int>{512, 1}, {1, 1}, {7, 1}, {64, 2}, {512, 3}}) {
    if (!runs_all_cases() && n_ubatch == 1) continue;
    const SessionOptions options = bf16_options(GetParam(), n_ubatch, n_threads);
    ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine, options));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
    ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, token_ids(*engine, kBf16Tokens)));
    if (expected.empty()) expected = logits;
    EXPECT_TRUE(same_bits(logits, expected)) << n_ubatch << ", " << n_threads;
    EXPECT_EQ(session->allocated_memory().total(), plan.total()) << n_ubatch << ", " << n_threads;
  }
}

TEST_P(AttentionInBf16, LogitsAreCloseToThoseInF32) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model("llama-dense")));
  SessionOptions options = bf16_options(GetParam(), 512, 1);
  ASSERT_OK_AND_ASSIGN(const auto rounded, Session::create(engine, options));
  options.attention = AttentionPrecision::float32;
  ASSERT_OK_AND_ASSIGN(const auto exact, Session::create(engine, options));
  ASSERT_OK_AND_ASSIGN(const auto got, logits_of(*rounded, token_ids(*engine, kBf16Tokens)));
  ASSERT_OK_AND_ASSIGN(const auto want, logits_of(*exact, token_ids(*engine, kBf16Tokens)));
  double error = 0, power = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double{got[i]} - want[i], 2);
    power += std::pow(double{want[i]}, 2);
  }
  error /= power;
  EXPECT_LT(error, 1e-4);
  EXPECT_GT(error, 1e-10) << "nothing was rounded";
}

}  // namespace
}  // namespace tessera
