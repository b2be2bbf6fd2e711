// The candidates: selection compared with a full sort, ties, NaN and infinite logits, reuse.
#include "tessera/sample/candidates.h"

#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

/// Sorts all tokens.
std::vector<int32_t> ids_by_sort(const std::vector<float>& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(
      ids, [&](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  return ids;
}

std::vector<int32_t> ids_in_list(std::span<const Candidate> items) {
  std::vector<int32_t> ids;
  for (const Candidate& item : items) ids.push_back(item.id);
  return ids;
}

TEST(Candidates, KeepTopEqualsAFullSortForEveryN) {
  Rng rng(21);
  for (const size_t n_tokens : {1u, 2u, 31u, 32u, 33u, 1000u, 5000u}) {
    // Few distinct values, so that most cuts hit a tie.
    std::vector<float> logits(n_tokens);
    for (float& logit : logits) logit = static_cast<float>(rng.next_u32() % 50);
    const auto sorted = ids_by_sort(logits);
    for (const size_t n : {size_t{1}, size_t{2}, size_t{40}, n_tokens / 3, n_tokens - 1}) {
      if (n == 0 || n >= n_tokens) continue;
      Candidates candidates;
      candidates.assign(logits);
      candidates.keep_top(n);
      const auto want = std::vector(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(n));
      EXPECT_EQ(ids_in_list(candidates.items()), want) << n << " of " << n_tokens;
    }
  }
}

TEST(Candidates, KeepTopOfAscendingLogits) {
  // Every token beats all before it: the threshold never filters.
  std::vector<float> logits(20000);
  std::iota(logits.begin(), logits.end(), 0.0f);
  Candidates candidates;
  candidates.assign(logits);
  candidates.keep_top(3);
  EXPECT_EQ(ids_in_list(candidates.items()), (std::vector<int32_t>{19999, 19998, 19997}));
}

TEST(Candidates, SortFirstSortsPiecewiseAsAtOnce) {
  Rng rng(22);
  const auto logits = random_logits(500, rng);
  const auto sorted = ids_by_sort(logits);
  Candidates candidates;
  candidates.assign(logits);
  for (const size_t n : {3u, 64u, 10u, 65u, 499u, 900u}) {
    const auto items = candidates.sort_first(n);
    for (size_t i = 0; i < std::min<size_t>(n, 500); ++i) EXPECT_EQ(items[i].id, sorted[i]);
  }
}

TEST(Candidates, OnlyAllowedTokensAreCandidates) {
  const std::vector<float> logits = {5, 4, kNan, -kInf, 1, 9};
  Candidates candidates;
  candidates.assign(logits, std::vector<int32_t>{0, 2, 3, 4, 77});
  EXPECT_EQ(ids_in_list(candidates.sort_first(9)), (std::vector<int32_t>{0, 4}));
  candidates.assign(logits, std::vector<uint64_t>{0b011101});
  EXPECT_EQ(candidates.max_logit(), 5);
  EXPECT_EQ(ids_in_list(candidates.sort_first(9)), (std::vector<int32_t>{0, 4}));
  // Tokens after the last word are not allowed.
  const std::vector<float> many(200, 1.0f);
  candidates.assign(many, std::vector<uint64_t>{0, uint64_t{1} << 63});
  EXPECT_EQ(ids_in_list(candidates.items()), std::vector<int32_t>{127});
  candidates.assign(logits);
  EXPECT_EQ(candidates.items().size(), 4u);
}

TEST(Candidates, SoftmaxIsExactOnKnownProbabilities) {
  Candidates candidates;
  candidates.assign(std::vector<float>{0, std::log(2.0f), std::log(5.0f)});
  candidates.softmax();
  // The logarithms are rounded to float: relative 2^-24 of at most 1.6.
  EXPECT_NEAR(candidates.items()[0].prob, 0.125, 2e-7);
  EXPECT_NEAR(candidates.items()[1].prob, 0.25, 2e-7);
  EXPECT_NEAR(candidates.items()[2].prob, 0.625, 2e-7);
}

TEST(Candidates, NanAndMinusInfinityAreNeverInTheList) {
  Candidates candidates;
  candidates.assign(std::vector<float>{kNan, 1, -kInf, 2});
  EXPECT_EQ(ids_in_list(candidates.items()), (std::vector<int32_t>{1, 3}));
}

TEST(Candidates, KeepTopLeavesOutWhatHasNoProbability) {
  std::vector<float> logits(100, -kInf);
  logits[3] = logits[7] = -5;
  logits[5] = kNan;
  Candidates candidates;
  candidates.assign(logits);
  candidates.keep_top(4);
  EXPECT_EQ(ids_in_list(candidates.items()), (std::vector<int32_t>{3, 7}));
}

TEST(Candidates, LogitsAreNeverNan) {
  for (const bool as_list : {false, true}) {
    Candidates candidates;
    candidates.assign(std::vector<float>{kNan, 1, 2});
    if (as_list) candidates.items();
    const int32_t ids[] = {1};
    candidates.adjust(ids, [](size_t, float) { return kNan; });
    candidates.for_each_logit([](float logit) { EXPECT_FALSE(std::isnan(logit)); });
    EXPECT_EQ(candidates.max_logit(), 2);
  }
}

TEST(Candidates, PlusInfinityTakesAllAndShares) {
  Candidates candidates;
  candidates.assign(std::vector<float>{1, kInf, 3e38f, kInf});
  candidates.softmax();
  EXPECT_EQ(candidates.items()[0].prob, 0);
  EXPECT_EQ(candidates.items()[1].prob, 0.5);
  EXPECT_EQ(candidates.items()[2].prob, 0);
  EXPECT_EQ(candidates.items()[3].prob, 0.5);
}

TEST(Candidates, SoftmaxOfBannedTokensLeavesNone) {
  Candidates candidates;
  candidates.assign(std::vector<float>{1, 2});
  candidates.items();
  const int32_t ids[] = {0, 1};
  candidates.adjust(ids, [](size_t, float) { return -kInf; });
  candidates.softmax();
  EXPECT_TRUE(candidates.items().empty());
}

TEST(Candidates, AdjustIsTheSameOnTheListAsOnTheDenseLogits) {
  Rng rng(23);
  const auto logits = random_logits(64, rng);
  const int32_t ids[] = {0, 5, 17, 63};
  const auto change = [](size_t i, float logit) { return logit * 2 - static_cast<float>(i); };
  Candidates dense, list;
  dense.assign(logits);
  list.assign(logits);
  list.sort_first(64);
  dense.adjust(ids, change);
  list.adjust(ids, change);
  EXPECT_EQ(ids_in_list(dense.sort_first(64)), ids_in_list(list.sort_first(64)));
}

TEST(Candidates, SortsRightAfterKeepIndicesTookSomeOfTheSortedFront) {
  std::vector<float> logits(100);
  std::iota(logits.begin(), logits.end(), 0.0f);
  Candidates candidates;
  candidates.assign(logits);
  candidates.sort_first(50);
  std::vector<uint32_t> keep(51);
  std::iota(keep.begin(), keep.end(), 49u);  // the token 50, and the 50 worst in any order
  candidates.keep_indices(keep);
  const auto ids = ids_in_list(candidates.sort_first(51));
  for (int32_t i = 0; i < 51; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], 50 - i);
}

TEST(Candidates, KeepLogitsFromLeavesMinKeep) {
  for (const bool as_list : {false, true}) {
    Candidates candidates;
    candidates.assign(std::vector<float>{1, 9, 5, 7, 3});
    if (as_list) candidates.items();
    candidates.keep_logits_from(8, 3);
    EXPECT_EQ(ids_in_list(candidates.sort_first(3)), (std::vector<int32_t>{1, 3, 2}));
  }
}

TEST(Candidates, DivideKeepsHugeLogitsFinite) {
  Candidates candidates;
  candidates.assign(std::vector<float>{-3e38f, -3.1e38f});
  candidates.divide_logits(1e-6);
  candidates.softmax();
  EXPECT_EQ(candidates.items().size(), 2u);
}

TEST(Candidates, ReuseAllocatesNothing) {
  Rng rng(24);
  const auto logits = random_logits(4096, rng);
  Candidates candidates;
  candidates.assign(logits);
  const Candidate* const first = candidates.items().data();
  for (const size_t n : {1u, 40u, 2000u, 4096u}) {
    candidates.assign(logits);
    candidates.keep_top(n);
    EXPECT_EQ(candidates.items().data(), first);
  }
}

TEST(Candidates, DrawsByLogitSortNoMoreThanNeeded) {
  // Nearly all probability is at the front, so the first piece of the sort suffices.
  std::vector<float> logits(1000, 0.0f);
  logits[900] = 30;
  Candidates candidates;
  candidates.assign(logits);
  candidates.order_by_logit();
  SeededRng rng(4);
  candidates.draw(rng);
  EXPECT_EQ(candidates.selected()->id, 900);
  EXPECT_NEAR(candidates.selected()->prob, 1, 1e-9);
  EXPECT_EQ(candidates.items()[0].id, 900);
}

TEST(Candidates, DrawsByLogitAreThoseOfAFullSort) {
  Rng numbers(25);
  const auto logits = random_logits(3000, numbers, 2);
  Candidates lazy, sorted;
  SeededRng a(6), b(6);
  for (int i = 0; i < 200; ++i) {
    lazy.assign(logits);
    lazy.order_by_logit();
    lazy.draw(a);
    sorted.assign(logits);
    sorted.sort_first(3000);
    sorted.draw(b);
    ASSERT_EQ(lazy.selected()->id, sorted.selected()->id);
  }
}

TEST(Candidates, KeepIndicesKeepsTheirOrder) {
  Candidates candidates;
  candidates.assign(std::vector<float>{1, 4, 2, 3});
  candidates.items();
  candidates.keep_indices(std::vector<uint32_t>{3, 0, 2});
  EXPECT_EQ(ids_in_list(candidates.items()), (std::vector<int32_t>{3, 0, 2}));
}

TEST(Candidates, TransformSeesTheProbabilitiesInTheOrderOfDraws) {
  Candidates candidates;
  candidates.assign(logits_of({0.25, 0.5, 0.25}));
  candidates.sort_first(1);
  candidates.softmax();
  std::vector<int32_t> order;
  candidates.transform([&](const Candidate& item) {
    order.push_back(item.id);
    return item.prob > 0.4 ? kNan : 1.0f;
  });
  EXPECT_EQ(order, (std::vector<int32_t>{1, 0, 2}));
  candidates.softmax();
  EXPECT_EQ(candidates.items()[0].prob, 0);  // NaN counts as -inf
  EXPECT_EQ(candidates.items()[1].prob, 0.5);
}

TEST(Candidates, AssignForgetsTheLastToken) {
  Candidates candidates;
  SeededRng rng(1);
  candidates.assign(std::vector<float>{1, 2});
  candidates.draw(rng);
  ASSERT_TRUE(candidates.selected());
  candidates.assign(std::vector<float>{kNan});
  candidates.draw(rng);
  EXPECT_FALSE(candidates.selected());
}

TEST(Candidates, AssignListKeepsTheOrder) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<Candidate> list = {{7, 1, 0.5}, {3, 4, 0}, {9, -kInf, 0}, {2, std::nanf(""), 0}, {5, 2, 0}};
  Candidates candidates;
  candidates.assign_list(list);
  EXPECT_EQ(ids_in_list(candidates.items()), (std::vector<int32_t>{7, 3, 5}));
  EXPECT_EQ(ids_in_list(candidates.in_draw_order()), (std::vector<int32_t>{7, 3, 5}));
  EXPECT_EQ(candidates.items()[0].prob, 0);
  EXPECT_FALSE(candidates.selected());
  EXPECT_EQ(candidates.max_logit(), 4);
  candidates.order_by_logit();
  EXPECT_EQ(ids_in_list(candidates.in_draw_order()), (std::vector<int32_t>{3, 5, 7}));
  candidates.assign_list(std::vector<Candidate>{{1, 3, 0}, {2, 2, 0}});  // sorted already
  EXPECT_EQ(candidates.max_logit(), 3);
  candidates.assign_list(std::vector<Candidate>{{1, 2, 0}, {2, 3, 0}});
  EXPECT_EQ(candidates.max_logit(), 3);
  candidates.assign_list({});
  EXPECT_TRUE(candidates.items().empty());
}

TEST(Candidates, InDrawOrderListsDenseLogits) {
  const std::vector<float> logits = {1, 3, -std::numeric_limits<float>::infinity(), 2};
  Candidates candidates;
  candidates.assign(logits);
  EXPECT_EQ(ids_in_list(candidates.in_draw_order()), (std::vector<int32_t>{0, 1, 3}));
  candidates.keep_top(3);
  EXPECT_EQ(ids_in_list(candidates.in_draw_order()), (std::vector<int32_t>{1, 3, 0}));
}

}  // namespace
}  // namespace tessera::sample
