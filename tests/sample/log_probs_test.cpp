// Log-probabilities of raw logits, compared with computations in double and with a full sort.
#include "tessera/sample/log_probs.h"

#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

TEST(SoftmaxSum, IsThatOfDoublesForAnyLength) {
  for (const size_t n : {1, 2, 3, 4, 5, 255, 256, 259, 1000, 32001}) {
    Rng rng(n);
    const std::vector<float> logits = random_logits(n, rng, 20);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - 20);
    // The error of exp is at most 2 ULP, that of a sum of 64 floats per lane at most 64 half ULP.
    EXPECT_NEAR(softmax_sum(logits).log_p(1.5f), 1.5 - (std::log(sum) + 20), 5e-6) << n;
  }
}

TEST(SoftmaxSum, IsNotFiniteWhereALogitIsNot) {
  for (const float bad : {kNan, kInf})
    for (size_t place = 0; place < 7; ++place) {
      std::vector<float> logits(7, 1.0f);
      logits[place] = bad;
      EXPECT_FALSE(std::isfinite(softmax_sum(logits).log_sum)) << bad << " at " << place;
    }
  EXPECT_FALSE(std::isfinite(softmax_sum(std::vector<float>(5, -kInf)).log_sum));
}

TEST(SoftmaxSum, GivesTheLogarithmOfTheSum) {
  EXPECT_NEAR(softmax_sum(std::vector<float>(8, 3.0f)).log_sum_exp(), 3 + std::log(8.0), 1e-7);
}

TEST(TopLogProbs, AreThoseOfAFullSort) {
  Rng rng(81);
  TopLogProbs top;
  for (const size_t n_tokens : {1u, 5u, 31u, 1000u, 20000u}) {
    std::vector<float> logits(n_tokens);
    for (float& logit : logits) logit = static_cast<float>(rng.next_u32() % 300) / 16;  // many ties
    std::vector<int32_t> ids(n_tokens);
    std::iota(ids.begin(), ids.end(), 0);
    const auto logit_of = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
    std::ranges::stable_sort(ids, std::greater{}, logit_of);
    const auto probs = softmax_of(std::vector<double>(logits.begin(), logits.end()));
    for (const size_t n : {0u, 1u, 20u, 100u, 30000u}) {
      const auto found = top.find(logits, softmax_sum(logits), n);
      ASSERT_EQ(found.size(), std::min(n, n_tokens));
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].id, ids[i]) << n << " of " << n_tokens;
        // The sum in f32 parts has an error of about 1e-6.
        EXPECT_NEAR(found[i].log_p, std::log(probs[static_cast<size_t>(ids[i])]), 5e-6);
      }
    }
  }
}

TEST(TopLogProbs, LeaveOutWhatHasNoProbability) {
  const std::vector<float> logits = {-kInf, 2, -kInf, 2};
  TopLogProbs top;
  const auto found = top.find(logits, softmax_sum(logits), 4);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id, 1);
  EXPECT_EQ(found[1].id, 3);
  EXPECT_NEAR(found[1].log_p, -std::log(2.0), 1e-7);
  EXPECT_EQ(softmax_sum(logits).log_p(logits[0]), static_cast<double>(-kInf));
}

TEST(TopLogProbs, OfLogitsThatAreNotFiniteAreNan) {
  const std::vector<float> logits = {1, kNan, 2};
  TopLogProbs top;
  const auto found = top.find(logits, softmax_sum(logits), 3);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id, 2);
  EXPECT_TRUE(std::isnan(found[0].log_p));
}

}  // namespace
}  // namespace tessera::sample
