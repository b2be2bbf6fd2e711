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
  SeededRng rng(6);
  int n_happened = 0;
  for (int i = 0; i < 10000; ++i) {
    Candidates candidates;
    candidates.assign(logits_of(kXtcProbs));
    sampler->apply(candidates, History(0), rng);
    n_happened += candidates.items().size() == 2 ? 1 : 0;
  }
  EXPECT_NEAR(n_happened, 3000, 4 * 46);  // the deviation of a binomial (10000, 0.3) is 46
}

/// Whether XTC removed tokens, for n_tokens tokens of which every other one has a single candidate if `with_single`.
std::vector<bool> xtc_outcomes(Sampler& sampler, bool with_single) {
  SeededRng unused(1);
  std::vector<bool> outcomes;
  for (int i = 0; i < 40; ++i) {
    Candidates candidates;
    if (with_single) {
      candidates.assign(std::vector<float>{1});
      sampler.apply(candidates, History(0), unused);
    }
    candidates.assign(logits_of(kXtcProbs));
    sampler.apply(candidates, History(0), unused);
    outcomes.push_back(candidates.items().size() == 2);
  }
  SeededRng fresh(1);
  EXPECT_EQ(unused.next_double(), fresh.next_double());
  return outcomes;
}

TEST(Xtc, HasRandomNumbersOfItsOwnForTwoCandidatesAndMore) {
  const SamplerParams params = {.seed = 9, .xtc_probability = 0.5f, .xtc_threshold = 0.1f};
  const auto sampler = make_with(make_xtc, params, 4);
  const auto outcomes = xtc_outcomes(*sampler, false);
  EXPECT_NE(xtc_outcomes(*sampler, false), outcomes);  // it goes on with other numbers
  sampler->reset();
  EXPECT_EQ(xtc_outcomes(*sampler, true), outcomes);
  SeededRng numbers(9);
  for (const bool outcome : outcomes) EXPECT_EQ(outcome, numbers.next_float() <= 0.5f);
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
