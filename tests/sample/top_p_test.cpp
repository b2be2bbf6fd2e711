// top_p against its definition.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

const std::vector<double> kTopPProbs = {0.1, 0.4, 0.2, 0.3};

TEST(TopP, KeepsTheFewestThatReachP) {
  EXPECT_EQ(ids_of(apply(make_top_p, {.top_p = 0.65f}, logits_of(kTopPProbs))), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(ids_of(apply(make_top_p, {.top_p = 0.75f}, logits_of(kTopPProbs))), (std::vector<int32_t>{1, 2, 3}));
}

TEST(TopP, ExactlyReachedIsEnough) {
  // Equal logits have probability exactly 1/4.
  EXPECT_EQ(ids_of(apply(make_top_p, {.top_p = 0.5f}, {7, 7, 7, 7})), (std::vector<int32_t>{0, 1}));
}

TEST(TopP, ZeroKeepsOne) { EXPECT_EQ(ids_of(apply(make_top_p, {.top_p = 0}, logits_of(kTopPProbs))), std::vector{1}); }

TEST(TopP, MinKeepWins) {
  EXPECT_EQ(apply(make_top_p, {.min_keep = 3, .top_p = 0.1f}, logits_of(kTopPProbs)).size(), 3u);
}

TEST(TopP, OffAtOne) { EXPECT_FALSE(make_with(make_top_p, {.top_p = 1})); }

TEST(TopP, LongTailIsSortedAsFarAsNeeded) {
  // 1000 equal tokens: 0.9 of them, the lowest ids.
  const auto probs = apply(make_top_p, {.top_p = 0.8995f}, std::vector<float>(1000, 1.0f));
  ASSERT_EQ(probs.size(), 900u);
  EXPECT_EQ(probs.rbegin()->first, 899);
}

TEST(TopP, DoesNotDependOnTheOrderOfTokens) { expect_permutable(make_top_p, {.top_p = 0.9f}); }

}  // namespace
}  // namespace tessera::sample
