// typ_p against its definition.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

// H = 0.887 nats; -ln p = 0.357, 1.609, 2.996, 2.996; distances 0.530, 0.722, 2.109, 2.109.
const std::vector<double> kPeaked = {0.7, 0.2, 0.05, 0.05};

// H = 1.639 nats; -ln p = 0.916, 2.120 five times; distances 0.723 and 0.481: the most probable comes last.
const std::vector<double> kFlat = {0.4, 0.12, 0.12, 0.12, 0.12, 0.12};

TEST(Typical, TakesTheNearestToTheEntropyFirst) {
  EXPECT_EQ(ids_of(apply(make_typical, {.typ_p = 0.8f}, logits_of(kPeaked))), (std::vector<int32_t>{0, 1}));
}

TEST(Typical, MayDropTheMostProbable) {
  EXPECT_EQ(ids_of(apply(make_typical, {.typ_p = 0.45f}, logits_of(kFlat))), (std::vector<int32_t>{1, 2, 3, 4}));
}

TEST(Typical, KeepsOneAtLeast) {
  EXPECT_EQ(ids_of(apply(make_typical, {.typ_p = 0}, logits_of(kPeaked))), std::vector{0});
}

TEST(Typical, MinKeepWins) {
  EXPECT_EQ(apply(make_typical, {.min_keep = 3, .typ_p = 0.1f}, logits_of(kPeaked)).size(), 3u);
}

TEST(Typical, OffAtOne) { EXPECT_FALSE(make_with(make_typical, {.typ_p = 1})); }

TEST(Typical, AgreesWithAFullSortOnRandomLogits) {
  Rng rng(31);
  const auto logits = random_logits(700, rng, 2);
  const auto probs = softmax_of(std::vector<double>(logits.begin(), logits.end()));
  double entropy = 0;
  for (const double p : probs) entropy -= p * std::log(p);
  std::vector<int32_t> order(700);
  std::iota(order.begin(), order.end(), 0);
  const auto distance = [&](int32_t id) { return std::abs(-std::log(probs[static_cast<size_t>(id)]) - entropy); };
  std::ranges::sort(order, {}, distance);
  std::vector<int32_t> want;
  double sum = 0;
  for (size_t i = 0; sum < 0.9; ++i) {
    want.push_back(order[i]);
    sum += probs[static_cast<size_t>(order[i])];
  }
  std::ranges::sort(want);
  EXPECT_EQ(ids_of(apply(make_typical, {.typ_p = 0.9f}, logits)), want);
}

TEST(Typical, DoesNotDependOnTheOrderOfTokens) { expect_permutable(make_typical, {.typ_p = 0.8f}); }

}  // namespace
}  // namespace tessera::sample
