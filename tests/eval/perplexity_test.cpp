#include "tessera/eval/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using eval::Chunks;
using eval::negative_log_likelihood;
using eval::Perplexity;

TEST(NegativeLogLikelihood, HandCases) {
  const std::vector<float> equal(8, 3.0f);
  EXPECT_NEAR(negative_log_likelihood(equal, 5), std::log(8.0), 1e-12);
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};  // 1/8, 2/8, 5/8
  EXPECT_NEAR(negative_log_likelihood(logits, 0), std::log(8.0), 1e-6);      // logits rounded to f32
  EXPECT_NEAR(negative_log_likelihood(logits, 2), std::log(1.6), 1e-6);
}

TEST(NegativeLogLikelihood, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, 3e38f, -3e38f};
  EXPECT_NEAR(negative_log_likelihood(logits, 1), std::log(2.0), 1e-12);
}

TEST(Perplexity, MeanAndStandardErrorByHand) {
  Perplexity perplexity;
  EXPECT_EQ(perplexity.estimate().n_tokens, 0);
  for (const double nll : {1.0, 2.0, 3.0, 2.0}) perplexity.add(nll);
  const auto estimate = perplexity.estimate();
  EXPECT_EQ(estimate.n_tokens, 4);
  EXPECT_NEAR(estimate.ppl, std::exp(2.0), 1e-12);
  EXPECT_NEAR(estimate.error, std::sqrt(0.5 / 3) * std::exp(2.0), 1e-12);  // variance 1/2 of 4
}

TEST(Perplexity, OneTokenHasNoError) {
  Perplexity perplexity;
  perplexity.add(1.0);
  EXPECT_EQ(perplexity.estimate().error, 0.0);
}

TEST(ScoredPositions, AreThoseBeforeTheSecondHalf) {
  EXPECT_EQ(eval::scored_positions(512).begin, 256);
  EXPECT_EQ(eval::scored_positions(512).end, 511);
  EXPECT_EQ(eval::scored_positions(5).size(), 2);
}

class ScoreTest : public ::testing::Test {
 protected:
  ScoreTest()
      : chunks_(Chunks::create(*testing::make_tokenizer(testing::small_vocab({{"a"}, {"b"}})), "aabbaabb", {.n_ctx = 4})
                    .value()) {}
  Chunks chunks_;  // <s> a a b, <s> a a b: the vocabulary adds BOS, which stands for a token
};

TEST_F(ScoreTest, ScoresTheNextTokenOfTheSecondHalfOnly) {
  Perplexity perplexity;
  const std::vector<float> logits = {0, 0, 0, 0, std::log(4.0f)};  // b: 1/2
  for (int64_t position = 0; position < 4; ++position) ASSERT_OK(eval::score(perplexity, chunks_, 0, position, logits));
  EXPECT_EQ(perplexity.estimate().n_tokens, 1);
  EXPECT_NEAR(perplexity.estimate().ppl, 2.0, 1e-6);
}

TEST_F(ScoreTest, RefusesALikelihoodThatIsNotFinite) {
  Perplexity perplexity;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> logits = {0, 0, 0, 0, bad};
    EXPECT_ERROR(eval::score(perplexity, chunks_, 1, 2, logits), "chunk 1, position 2: -log p of the next token is");
  }
  EXPECT_EQ(perplexity.estimate().n_tokens, 0);
}

}  // namespace
}  // namespace tessera
