// logit_bias against its definition.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

TEST(LogitBias, AddsToTheLogits) {
  const auto probs = apply(make_logit_bias, {.logit_bias = {{1, 2}}}, {0, -1, 0});
  EXPECT_NEAR(probs.at(1), std::exp(1) / (2 + std::exp(1)), kProbTolerance);
}

TEST(LogitBias, BiasesOfATokenAddUp) {
  const auto probs = apply(make_logit_bias, {.logit_bias = {{1, 2}, {0, 1}, {1, -1}}}, {0, 0});
  EXPECT_NEAR(probs.at(1), 0.5, kProbTolerance);
}

TEST(LogitBias, MinusInfinityBansEvenPlusInfinity) {
  EXPECT_EQ(ids_of(apply(make_logit_bias, {.logit_bias = {{1, -kInf}}}, {0, kInf})), std::vector{0});
}

TEST(LogitBias, OffWhenEmpty) { EXPECT_FALSE(make_with(make_logit_bias, {})); }

}  // namespace
}  // namespace tessera::sample
