// Perplexity and its standard error, computed by hand, and the scored positions of chunks.
#include "tessera/eval/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using eval::Chunks;
using eval::Perplexity;

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

TEST(ScoredPositions, OfOverlappingChunksAreThoseBeforeWhatIsNew) {
  EXPECT_EQ(eval::scored_positions(512, 512).begin, 256);  // chunks do not overlap
  EXPECT_EQ(eval::scored_positions(640, 256).begin, 383);
  EXPECT_EQ(eval::scored_positions(640, 256).size(), 256);
  EXPECT_EQ(eval::scored_positions(640, 256).end, 639);
}

class ScoreTest : public ::testing::Test {
 protected:
  Result<> score(std::span<const eval::ChunkRow> rows) { return eval::score(perplexity_, chunks_, rows, *threads_); }

  // <s> a a b, <s> a a b: the vocabulary adds BOS, which replaces a token
  Chunks chunks_ =
      Chunks::create(*testing::make_tokenizer(testing::small_vocab({{"a"}, {"b"}})), "aabbaabb", {.n_ctx = 4}).value();
  std::unique_ptr<ThreadPool> threads_ = ThreadPool::create({.n_threads = 2, .poll = 0}).value();
  Perplexity perplexity_;
};

TEST_F(ScoreTest, ScoresTheNextTokenOfTheSecondHalfOnly) {
  const std::vector<float> logits = {0, 0, 0, 0, std::log(4.0f)};  // b: 1/2
  std::vector<eval::ChunkRow> rows;
  for (int64_t position = 0; position < 4; ++position) rows.push_back({0, position, logits});
  ASSERT_OK(score(rows));
  EXPECT_EQ(perplexity_.estimate().n_tokens, 1);
  EXPECT_NEAR(perplexity_.estimate().ppl, 2.0, 1e-6);
}

TEST_F(ScoreTest, RefusesALikelihoodThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> logits = {0, 0, 0, 0, bad};
    const eval::ChunkRow row{1, 2, logits};
    EXPECT_ERROR(score({&row, 1}), "chunk 1, position 2: -log p of the next token is");
  }
  EXPECT_EQ(perplexity_.estimate().n_tokens, 0);
}

}  // namespace
}  // namespace tessera
