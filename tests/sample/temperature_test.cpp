// Fixed and dynamic temperature against their definitions.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

TEST(Temperature, DividesTheLogits) {
  const auto probs = apply(make_temperature, {.temp = 0.5f}, {0, 1});
  EXPECT_NEAR(probs.at(1), 1 / (1 + std::exp(-2.0)), kProbTolerance);
}

TEST(Temperature, OneIsIdentity) {
  Rng rng(1);
  const auto logits = random_logits(30, rng);
  EXPECT_EQ(apply(make_temperature, {.temp = 1}, logits), apply(make_top_k, {.top_k = 0}, logits));
}

TEST(Temperature, BelowTheLeastIsLeftToGreedy) {
  EXPECT_FALSE(make_with(make_temperature, {.temp = 0}));
  EXPECT_FALSE(make_with(make_temperature, {.temp = -1}));
}

TEST(Temperature, DynamicIsGreatestWhenAllAreEquallyProbable) {
  // The entropy is ln n, so T = temp + range. Equal logits do not show T, so a second distribution is needed. With
  // exponent 0, T = temp + range for any entropy.
  const SamplerParams params = {.temp = 1, .dynatemp_range = 0.5f, .dynatemp_exponent = 0};
  const auto probs = apply(make_temperature, params, {0, 3});
  EXPECT_NEAR(probs.at(1), 1 / (1 + std::exp(-3 / 1.5)), 1e-7);  // logits are stored as float
}

TEST(Temperature, DynamicFollowsTheEntropy) {
  const SamplerParams params = {.temp = 1, .dynatemp_range = 0.5f, .dynatemp_exponent = 2};
  const std::vector<double> probs = softmax_of({0, 1, 3});
  double entropy = 0;
  for (const double p : probs) entropy -= p * std::log(p);
  const double t = 0.5 + 1.0 * std::pow(entropy / std::log(3.0), 2);
  const auto want = softmax_of({0, 1 / t, 3 / t});
  const auto got = apply(make_temperature, params, {0, 1, 3});
  for (int32_t i = 0; i < 3; ++i) EXPECT_NEAR(got.at(i), want[static_cast<size_t>(i)], 1e-7);  // float logits
}

TEST(Temperature, DynamicMayReachZero) {
  // range > temp and almost no entropy: T is 0 except for rounding, which must not divide by zero.
  const SamplerParams params = {.temp = 0.5f, .dynatemp_range = 2, .dynatemp_exponent = 1};
  EXPECT_NEAR(apply(make_temperature, params, {0, 1000}).at(1), 1, kProbTolerance);
}

}  // namespace
}  // namespace tessera::sample
