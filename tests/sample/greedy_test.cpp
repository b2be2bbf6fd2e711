// greedy: the most probable token.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

Candidate choose(const std::vector<float>& logits) {
  Candidates candidates;
  candidates.assign(logits);
  SeededRng rng(1);
  make_with(make_greedy, {})->apply(candidates, History(0), rng);
  return candidates.selected().value_or(Candidate{-1, 0, 0});
}

TEST(Greedy, TakesTheGreatestWithProbabilityOne) {
  const auto token = choose({1, -3, 4, 2});
  EXPECT_EQ(token.id, 2);
  EXPECT_EQ(token.prob, 1);
}

TEST(Greedy, TieGoesToTheLowestId) {
  for (const size_t n : {4u, 100u, 5000u}) {
    std::vector<float> logits(n, 1.0f);
    logits[0] = 0;
    EXPECT_EQ(choose(logits).id, 1) << n;
  }
}

TEST(Greedy, TakesPlusInfinityAndPassesOverNan) { EXPECT_EQ(choose({kNan, 1, kInf, 3e38f}).id, 2); }

TEST(Greedy, UsesNoRandomNumber) {
  Candidates candidates;
  candidates.assign(std::vector<float>{1, 2});
  SeededRng rng(3), fresh(3);
  make_with(make_greedy, {})->apply(candidates, History(0), rng);
  EXPECT_EQ(rng.next_double(), fresh.next_double());
}

TEST(Greedy, SelectsNothingWhereNothingIsLeft) { EXPECT_EQ(choose({kNan, -kInf}).id, -1); }

}  // namespace
}  // namespace tessera::sample
