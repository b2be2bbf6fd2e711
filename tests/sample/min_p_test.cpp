// min_p against its definition.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

const std::vector<double> kMinPProbs = {0.1, 0.4, 0.2, 0.3};

TEST(MinP, KeepsThoseWithTheShareOfTheBest) {
  // 0.45 * 0.4 = 0.18
  EXPECT_EQ(ids_of(apply(make_min_p, {.min_p = 0.45f}, logits_of(kMinPProbs))), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(ids_of(apply(make_min_p, {.min_p = 0.7f}, logits_of(kMinPProbs))), (std::vector<int32_t>{1, 3}));
}

TEST(MinP, OneKeepsAllThatTieForTheBest) {
  EXPECT_EQ(ids_of(apply(make_min_p, {.min_p = 1}, {2, 5, 5, 1})), (std::vector<int32_t>{1, 2}));
}

TEST(MinP, MinKeepWins) {
  EXPECT_EQ(ids_of(apply(make_min_p, {.min_keep = 2, .min_p = 1}, logits_of(kMinPProbs))),
            (std::vector<int32_t>{1, 3}));
}

TEST(MinP, OffAtZero) { EXPECT_FALSE(make_with(make_min_p, {.min_p = 0})); }

TEST(MinP, DoesNotDependOnTheOrderOfTokens) { expect_permutable(make_min_p, {.min_p = 0.1f}); }

}  // namespace
}  // namespace tessera::sample
