// The vector functions of the softmax, and the log-likelihood of tokens, compared with computations in double.
#include "tessera/eval/log_likelihood.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "tessera/base/rng.h"
#include "tessera/base/vector_math.h"
#include "tests/support/numbers.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using eval::negative_log_likelihood;
using testing::kInf;
using testing::kNaN;

std::vector<float> random_logits(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = rng.next_float(-20.0f, 20.0f);
  return logits;
}

TEST(Exp4, IsExpToTwoUnitsInTheLastPlace) {
  Rng rng(1);
  double worst = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const float x = rng.next_float(-86.9f, 88.0f);
    const double want = std::exp(static_cast<double>(x)), got = static_cast<double>(exp4(splat(x))[0]);
    worst = std::max(worst, std::fabs(got - want) / want);
  }
  EXPECT_LT(worst, 2 * 0x1p-24 * 2);  // a ULP is at most 2^-23 of the value
}

TEST(Exp4, EdgesAndNan) {
  const F32x4 y = exp4(F32x4{0.0f, -87.5f, -kInf, kNaN});
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST(Round4, HalvesToEvenAndLargeNumbersStay) {
  const F32x4 y = round4(F32x4{2.5f, -3.5f, 1e9f, -kInf});
  EXPECT_EQ(y[0], 2.0f);
  EXPECT_EQ(y[1], -4.0f);
  EXPECT_EQ(y[2], 1e9f);
  EXPECT_EQ(y[3], -kInf);
}

TEST(NegativeLogLikelihood, HandCases) {
  const std::vector<float> equal(8, 3.0f);
  EXPECT_NEAR(negative_log_likelihood(equal, 5), std::log(8.0), 1e-7);
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};  // 1/8, 2/8, 5/8
  EXPECT_NEAR(negative_log_likelihood(logits, 0), std::log(8.0), 1e-6);      // logits rounded to f32
  EXPECT_NEAR(negative_log_likelihood(logits, 2), std::log(1.6), 1e-6);
}

TEST(NegativeLogLikelihood, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, 3e38f, -3e38f};
  EXPECT_NEAR(negative_log_likelihood(logits, 1), std::log(2.0), 1e-7);
}

TEST(NegativeLogLikelihood, ATokenThatNeverComesIsInfinitelyUnlikely) {
  const std::vector<float> logits = {0.0f, -kInf, 0.0f};
  EXPECT_NEAR(negative_log_likelihood(logits, 0), std::log(2.0), 1e-7);
  EXPECT_TRUE(std::isinf(negative_log_likelihood(logits, 1)));
}

class Threads : public ::testing::TestWithParam<int> {
 protected:
  std::unique_ptr<ThreadPool> pool_ = ThreadPool::create({.n_threads = GetParam(), .poll = 0}).value();
};

TEST_P(Threads, GiveTheSameBits) {
  std::vector<std::vector<float>> logits;
  std::vector<eval::TokenRow> rows;
  for (uint64_t i = 0; i < 13; ++i) logits.push_back(random_logits(100, i));
  for (const auto& row : logits) rows.push_back({row, 7});
  std::vector<double> out(rows.size());
  eval::negative_log_likelihoods(*pool_, rows, out);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(out[i], negative_log_likelihood(logits[i], 7));
}

TEST_P(Threads, GiveTheErrorOfTheLowestRow) {
  std::atomic<int> n_done{0};
  const auto done = eval::for_each_row(*pool_, 100, [&](size_t i) -> Result<> {
    ++n_done;
    if (i % 10 == 3) return fail(ErrorCode::format, "row {}", i);
    return {};
  });
  EXPECT_ERROR(done, "row 3");
  n_done = 0;
  EXPECT_OK(eval::for_each_row(*pool_, 100, [&](size_t) -> Result<> {
    ++n_done;
    return {};
  }));
  EXPECT_EQ(n_done, 100);
}

INSTANTIATE_TEST_SUITE_P(Counts, Threads, ::testing::Values(1, 2, 5));

}  // namespace
}  // namespace tessera
