// xtc against its definition.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

const std::vector<double> kXtcProbs = {0.05, 0.4, 0.25, 0.3};

TEST(Xtc, RemovesAllButTheLeastOfTheProbable) {
  const SamplerParams params = {.xtc_probability = 1, .xtc_threshold = 0.1f};
  const auto probs = apply(make_xtc, params, logits_of(kXtcProbs));
  EXPECT_EQ(ids_of(probs), (std::vector<int32_t>{0, 2}));
  EXPECT_NEAR(probs.at(2), 0.25 / 0.3, 1e-7);  // the logits are rounded to float
}

TEST(Xtc, OneProbableTokenStays) {
  const SamplerParams params = {.xtc_probability = 1, .xtc_threshold = 0.35f};
  EXPECT_EQ(apply(make_xtc, params, logits_of(kXtcProbs)).size(), 4u);
}

TEST(Xtc, RemovesNothingThatMinKeepNeeds) {
  const SamplerParams params = {.min_keep = 3, .xtc_probability = 1, .xtc_threshold = 0.1f};
  EXPECT_EQ(apply(make_xtc, params, logits_of(kXtcProbs)).size(), 4u);
}

TEST(Xtc, HappensWithItsProbability) {
  const SamplerParams params = {.xtc_probability = 0.3f, .xtc_threshold = 0.1f};
  const auto sampler = make_with(make_xtc, params, 4);
  Rng rng(6);
  int n_happened = 0;
  for (int i = 0; i < 10000; ++i) {
    Candidates candidates;
    candidates.assign(logits_of(kXtcProbs));
    sampler->apply(candidates, History(0), rng);
    n_happened += candidates.items().size() == 2 ? 1 : 0;
  }
  EXPECT_NEAR(n_happened, 3000, 4 * 46);  // the deviation of a binomial (10000, 0.3) is 46
}

TEST(Xtc, OffAtZeroProbabilityAndAboveHalfThreshold) {
  EXPECT_FALSE(make_with(make_xtc, {.xtc_probability = 0}));
  EXPECT_FALSE(make_with(make_xtc, {.xtc_probability = 1, .xtc_threshold = 0.51f}));
}

TEST(Xtc, DoesNotDependOnTheOrderOfTokens) {
  expect_permutable(make_xtc, {.xtc_probability = 1, .xtc_threshold = 0.02f});
}

}  // namespace
}  // namespace tessera::sample
