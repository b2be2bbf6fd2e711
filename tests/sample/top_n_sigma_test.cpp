// top_n_sigma against its definition.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

// Mean 5, deviation 2.
const std::vector<float> kLogits = {2, 4, 4, 4, 5, 5, 7, 9};

TEST(TopNSigma, KeepsThoseWithinNDeviationsOfTheBest) {
  EXPECT_EQ(ids_of(apply(make_top_n_sigma, {.top_n_sigma = 1}, kLogits)), (std::vector<int32_t>{6, 7}));
  EXPECT_EQ(ids_of(apply(make_top_n_sigma, {.top_n_sigma = 2}, kLogits)), (std::vector<int32_t>{4, 5, 6, 7}));
}

TEST(TopNSigma, DeviationLeavesOutBannedTokens) {
  auto logits = kLogits;
  logits.insert(logits.end(), {-kInf, kNan});
  EXPECT_EQ(ids_of(apply(make_top_n_sigma, {.top_n_sigma = 1}, logits)), (std::vector<int32_t>{6, 7}));
}

TEST(TopNSigma, OffAtZeroAndBelow) {
  EXPECT_FALSE(make_with(make_top_n_sigma, {.top_n_sigma = 0}));
  EXPECT_FALSE(make_with(make_top_n_sigma, {.top_n_sigma = -1}));
}

TEST(TopNSigma, DoesNotDependOnTheOrderOfTokens) { expect_permutable(make_top_n_sigma, {.top_n_sigma = 1}); }

TEST(TopNSigma, DoesNotDependOnTheTemperature) {
  Rng rng(4);
  auto logits = random_logits(50, rng);
  const auto want = ids_of(apply(make_top_n_sigma, {.top_n_sigma = 1}, logits));
  for (float& logit : logits) logit *= 0.25f;
  EXPECT_EQ(ids_of(apply(make_top_n_sigma, {.top_n_sigma = 1}, logits)), want);
}

}  // namespace
}  // namespace tessera::sample
