// Log-probabilities as 16-bit codes, and the divergence computed from them, compared with computations in double.
#include "tessera/eval/log_prob_codes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/base/rng.h"
#include "tests/support/numbers.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using eval::compare_log_probs;
using eval::encode_log_probs;
using eval::log_prob_row_words;
using eval::LogProbGrid;
using eval::row_grid;
using testing::kInf;
using Words = std::vector<uint16_t>;

Words encoded(std::span<const float> logits) {
  Words words(log_prob_row_words(logits.size()), 0xaaaa);
  encode_log_probs(row_grid(logits).value(), logits, words);
  return words;
}

LogProbGrid grid_of(const Words& words) {
  LogProbGrid grid;
  std::memcpy(&grid.scale, &words[0], 4);
  std::memcpy(&grid.min, &words[2], 4);
  return grid;
}

std::vector<float> random_logits(size_t n, uint64_t seed, float spread) {
  Rng rng(seed);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = rng.next_float(-spread, spread);
  return logits;
}

// The definitions, computed in double.
struct Exact {
  explicit Exact(std::span<const float> logits) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    for (const float logit : logits) log_p.push_back(static_cast<double>(logit) - std::log(sum));
  }
  std::vector<double> log_p;
};
double exact_kl(std::span<const float> base, std::span<const float> logits) {
  const Exact p(base), q(logits);
  double kl = 0;
  for (size_t i = 0; i < base.size(); ++i) kl += std::exp(p.log_p[i]) * (p.log_p[i] - q.log_p[i]);
  return kl;
}

TEST(LogProbCodes, ARowIsScaleLeastAndCodes) {
  EXPECT_EQ(log_prob_row_words(5), 10u);
  EXPECT_EQ(log_prob_row_words(6), 10u);
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};
  const Words words = encoded(logits);
  const LogProbGrid grid = grid_of(words);
  EXPECT_FLOAT_EQ(grid.scale, std::log(5.0f) / 65535);
  EXPECT_NEAR(grid.min, -std::log(8.0), 1e-6);
  EXPECT_FALSE(grid.is_cut());
  EXPECT_EQ(words[4], 0);
  EXPECT_EQ(words[6], 65535);
  EXPECT_EQ(words[7], 0);  // padding to an even number
  EXPECT_NEAR(grid.log_prob(words[5]), std::log(0.25), 1e-5);
}

TEST(LogProbCodes, WhatIsSixteenNatsBelowTheHighestIsCut) {
  const Words words = encoded(std::vector<float>{10.0f, 2.0f, -6.0f, -6.5f, -100.0f, -kInf});
  EXPECT_TRUE(grid_of(words).is_cut());
  EXPECT_EQ(words[4], 65535);
  EXPECT_NEAR(words[5], 65535 / 2, 1);
  EXPECT_EQ(words[6], 0);
  EXPECT_EQ(words[7], 0);
  EXPECT_EQ(words[8], 0);
  EXPECT_EQ(words[9], 0);
}

TEST(LogProbCodes, LogitsThatAreNumbersOnly) {
  EXPECT_ERROR(row_grid(std::vector<float>{1.0f, NAN}), "not a finite number");
  EXPECT_ERROR(row_grid(std::vector<float>{1.0f, kInf}), "not a finite number");
}

TEST(CompareLogProbs, TheSameLogitsDoNotDiffer) {
  for (const float spread : {0.0f, 0.01f, 5.0f, 40.0f})
    for (const size_t n : {1, 3, 513, 32000}) {
      const std::vector<float> logits = random_logits(n, n, spread);
      ASSERT_OK_AND_ASSIGN(const auto difference,
                           compare_log_probs(encoded(logits), logits, static_cast<int32_t>(n / 2)));
      EXPECT_EQ(difference.kl, 0.0) << n << " " << spread;
      EXPECT_EQ(difference.nll, difference.nll_base);
      EXPECT_TRUE(difference.has_same_top);
    }
}

// The bound: log p on each side is rounded by up to half a step, 16 / 65535 / 2, which contributes in second order. The
// sum has single precision.
TEST(CompareLogProbs, IsTheDivergence) {
  for (const float change : {0.001f, 0.05f, 1.0f, 6.0f})
    for (const size_t n : {3, 64, 1000, 32001}) {
      const std::vector<float> base = random_logits(n, 1, 7.0f), noise = random_logits(n, 2, change);
      std::vector<float> logits = base;
      for (size_t i = 0; i < n; ++i) logits[i] += noise[i];
      const double want = exact_kl(base, logits);
      ASSERT_OK_AND_ASSIGN(const auto difference, compare_log_probs(encoded(base), logits, 0));
      const double step = 16.0 / 65535;
      EXPECT_NEAR(difference.kl, want, 1e-5 * want + step * std::sqrt(want) + step * step) << n << " " << change;
      EXPECT_GE(difference.kl, 0.0);
      EXPECT_NEAR(difference.nll, -Exact(logits).log_p[0], step);
      EXPECT_NEAR(difference.nll_base, -Exact(base).log_p[0], step);
    }
}

TEST(CompareLogProbs, ByHand) {
  const std::vector<float> base = {0, std::log(2.0f), std::log(5.0f)};  // 1/8, 2/8, 5/8
  const std::vector<float> logits = {0, 0, 0};
  ASSERT_OK_AND_ASSIGN(const auto difference, compare_log_probs(encoded(base), logits, 1));
  const double want = std::log(3.0 / 8) / 8 + std::log(6.0 / 8) / 4 + std::log(15.0 / 8) * 5 / 8;
  EXPECT_NEAR(difference.kl, want, 1e-5);
  EXPECT_NEAR(difference.nll, std::log(3.0), 1e-5);
  EXPECT_NEAR(difference.nll_base, std::log(4.0), 1e-4);
  EXPECT_FALSE(difference.has_same_top);  // the first of equals
}

// The grid of the model's row does not limit the divergence for tokens to which the model assigns almost no
// probability.
TEST(CompareLogProbs, AModelThatIsSureOfTheWrongTokenIsFarOff) {
  const std::vector<float> base = {0, 0}, logits = {50, 0};
  ASSERT_OK_AND_ASSIGN(const auto difference, compare_log_probs(encoded(base), logits, 0));
  EXPECT_NEAR(difference.kl, exact_kl(base, logits), 1e-3);  // 24.3
}

TEST(CompareLogProbs, RefusesDamage) {
  const std::vector<float> logits = random_logits(64, 3, 5.0f);
  const auto damaged = [&](float scale, float min) {
    Words words = encoded(logits);
    std::memcpy(&words[0], &scale, 4);
    std::memcpy(&words[2], &min, 4);
    return compare_log_probs(words, logits, 0);
  };
  for (const auto& [scale, min] :
       {std::pair{NAN, -5.0f}, std::pair{1e-4f, NAN}, std::pair{-1e-4f, -5.0f}, std::pair{1e-4f, 5.0f},
        std::pair{kInf, -5.0f}, std::pair{1e-4f, -kInf}, std::pair{0.0f, 0.0f}, std::pair{0.0f, -9.0f}})
    EXPECT_ERROR(damaged(scale, min), "the base's probabilities are damaged");
  EXPECT_ERROR(compare_log_probs(Words(log_prob_row_words(64)), logits, 0), "damaged: they sum to 64");
}

TEST(CompareLogProbs, RefusesWhatIsNotFinite) {
  const std::vector<float> base = {0, 0, 0};
  EXPECT_ERROR(compare_log_probs(encoded(base), std::vector<float>{0, 0, -kInf}, 0), "the divergence is infinite");
  EXPECT_ERROR(compare_log_probs(encoded(base), std::vector<float>{0, 0, NAN}, 0), "not a finite number");
}

}  // namespace
}  // namespace tessera
