// top_k against its definition.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

TEST(TopK, KeepsTheKBestAndRenormalises) {
  const auto probs = apply(make_top_k, {.top_k = 2}, {0, std::log(3.0f), -1, 0.5f});
  EXPECT_EQ(ids_of(probs), (std::vector<int32_t>{1, 3}));
  EXPECT_NEAR(probs.at(1), 3 / (3 + std::exp(0.5)), 1e-7);  // ln 3 is rounded to float
}

TEST(TopK, TieGoesToTheLowerId) {
  EXPECT_EQ(ids_of(apply(make_top_k, {.top_k = 2}, {1, 2, 1, 1, 1, 1, 1, 1})), (std::vector<int32_t>{0, 1}));
}

TEST(TopK, MinKeepWins) { EXPECT_EQ(apply(make_top_k, {.min_keep = 3, .top_k = 1}, {1, 2, 3, 4}).size(), 3u); }

TEST(TopK, OffAtZeroAndBelow) {
  EXPECT_FALSE(make_with(make_top_k, {.top_k = 0}));
  EXPECT_FALSE(make_with(make_top_k, {.top_k = -1}));
}

TEST(TopK, MoreThanAllIsIdentity) {
  Rng rng(1);
  const auto logits = random_logits(20, rng);
  EXPECT_EQ(apply(make_top_k, {.top_k = 1000}, logits), apply(make_top_k, {.top_k = 0}, logits));
}

TEST(TopK, DoesNotDependOnTheOrderOfTokens) { expect_permutable(make_top_k, {.top_k = 13}); }

}  // namespace
}  // namespace tessera::sample
