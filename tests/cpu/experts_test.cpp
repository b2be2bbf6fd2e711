// Mixture of experts on the CPU: choice, routing and summation, each with examples by hand and a double-precision
// reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/graph_runner.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

std::vector<int32_t> top_k(const std::vector<float>& scores, int64_t k, int64_t divisor = 1) {
  GraphRunner runner("", 1);
  GraphBuilder b;
  const auto n = static_cast<int64_t>(scores.size());
  b.output(b.top_k(b.input("x", DType::f32, {n, 1}), k, divisor), "y");
  return values_of<int32_t>(runner.run(std::move(b).finish().value(), {{"x", bytes_of(scores)}}).value().at("y"));
}

using Ids = std::vector<int32_t>;

TEST(TopK, GivesTheHighestFirst) {
  EXPECT_EQ(top_k({0.1f, 0.5f, 0.3f, 0.9f, -1.0f}, 1), (Ids{3}));
  EXPECT_EQ(top_k({0.1f, 0.5f, 0.3f, 0.9f, -1.0f}, 3), (Ids{3, 1, 2}));
  EXPECT_EQ(top_k({0.1f, 0.5f, 0.3f, 0.9f, -1.0f}, 5), (Ids{3, 1, 2, 0, 4}));
}

TEST(TopK, OfEqualsTheLowerIdIsFirst) {
  EXPECT_EQ(top_k({1, 1, 1, 1}, 2), (Ids{0, 1}));
  EXPECT_EQ(top_k({0, 2, 1, 2, 1}, 3), (Ids{1, 3, 2}));
  EXPECT_EQ(top_k({0.0f, -0.0f, 0.0f}, 3), (Ids{0, 1, 2}));
}

TEST(TopK, DividesIds) {
  EXPECT_EQ(top_k({0.1f, 0.5f, 0.3f, 0.9f, -1.0f, 0.8f}, 6, 2), (Ids{1, 2, 0, 1, 0, 2}));
  EXPECT_EQ(top_k({0.1f, 0.5f, 0.3f, 0.9f, -1.0f}, 2, 100), (Ids{0, 0}));
}

TEST(TopK, NaNIsLowerThanAnyNumber) {
  EXPECT_EQ(top_k({kNaN, -kInf, kNaN, kInf}, 4), (Ids{3, 1, 0, 2}));
  EXPECT_EQ(top_k({kNaN, kNaN, kNaN}, 2), (Ids{0, 1}));
}

TEST(TopK, IsAStableSortOfEveryRow) {
  Rng rng(3);
  const int64_t n = 40, t = 25;
  std::vector<float> scores;
  for (int64_t i = 0; i < n * t; ++i) scores.push_back(static_cast<float>(rng.next_u32() % 16));  // many ties
  for (const int64_t k : {1, 7, 40})
    for (Setting& setting : all_settings()) {
      GraphBuilder b;
      b.output(b.top_k(b.input("x", DType::f32, {n, t}), k), "y");
      ASSERT_OK_AND_ASSIGN(const auto out,
                           setting.runner.run(std::move(b).finish().value(), {{"x", bytes_of(scores)}}));
      const auto ids = values_of<int32_t>(out.at("y"));
      for (int64_t row = 0; row < t; ++row) {
        Ids want(static_cast<size_t>(n));
        for (int32_t i = 0; i < n; ++i) want[static_cast<size_t>(i)] = i;
        std::ranges::stable_sort(want, std::greater{},
                                 [&](int32_t id) { return scores[static_cast<size_t>(row * n + id)]; });
        ASSERT_TRUE(std::equal(want.begin(), want.begin() + k, ids.begin() + row * k)) << row;
      }
    }
}

Result<std::vector<float>> expert_weights(const std::vector<float>& scores, const Ids& ids, int64_t n_tokens,
                                          const ExpertWeightsParams& params) {
  GraphRunner runner;
  GraphBuilder b;
  const Value s = b.input("s", DType::f32, {static_cast<int64_t>(scores.size()) / n_tokens, n_tokens});
  const Value i = b.input("i", DType::i32, {static_cast<int64_t>(ids.size()) / n_tokens, n_tokens});
  b.output(b.expert_weights(s, i, params), "y");
  return runner.run_y(std::move(b).finish().value(), {{"s", bytes_of(scores)}, {"i", bytes_of(ids)}});
}

using Floats = std::vector<float>;

TEST(ExpertWeights, AreTheChosenScores) {
  ASSERT_OK_AND_ASSIGN(const auto y, expert_weights({1, 2, 3, 4, 5, 6}, {2, 0, 1, 1}, 2, {}));
  EXPECT_EQ(y, (Floats{3, 1, 5, 5}));
}

TEST(ExpertWeights, AreDividedByTheirSumThenScaled) {
  ASSERT_OK_AND_ASSIGN(const auto y, expert_weights({1, 2, 3}, {2, 0}, 1, {.normalize = true, .scale = 2}));
  EXPECT_EQ(y, (Floats{1.5f, 0.5f}));
  ASSERT_OK_AND_ASSIGN(const auto scaled, expert_weights({1, 2, 3}, {2, 0}, 1, {.normalize = false, .scale = 2}));
  EXPECT_EQ(scaled, (Floats{6, 2}));
}

TEST(ExpertWeights, ATinySumDividesAsTheSmallestNormalHalf) {
  ASSERT_OK_AND_ASSIGN(const auto y, expert_weights({0, 0x1p-20f}, {0, 1}, 1, {.normalize = true}));
  EXPECT_EQ(y, (Floats{0, 0x1p-6f}));
}

TEST(ExpertWeights, AnIdOutOfRangeFailsTheRun) {
  EXPECT_ERROR(expert_weights({1, 2, 3}, {0, 3}, 1, {}), "expert 3, want 0 to 2");
  EXPECT_ERROR(expert_weights({1, 2, 3}, {-1, 0}, 1, {}), "expert -1, want 0 to 2");
}

// --- groups

TEST(TopGroups, KeepsTheGroupsWithTheBestTwo) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.top_groups(b.input("x", DType::f32, {6, 3}), {.n_groups = 3, .n_used = 2}), "y");
        return std::move(b).finish().value();
      },
      // Sums 5, 6, 4; then ties, of which the lower groups stay; then negative sums.
      {{"x", bytes_of<float>({5, 0, 3, 3, 1, 3, 1, 1, 2, 0, 0, 2, -1, -9, -2, -3, -4, -5})}},
      [](const auto& y) {
        EXPECT_EQ(
            y, (std::vector<float>{5, 0, 3, 3, -kInf, -kInf, 1, 1, 2, 0, -kInf, -kInf, -kInf, -kInf, -2, -3, -4, -5}));
      });
}

TEST(TopGroups, OfOneExpertAreTheBestExperts) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.top_groups(b.input("x", DType::f32, {4}), {.n_groups = 4, .n_used = 2}), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of<float>({1, 4, 2, 3})}},
      [](const auto& y) {
        EXPECT_EQ(y, (std::vector<float>{-kInf, 4, -kInf, 3}));
      });
}

// --- routes, checked through the operations that read them

TEST(ExpertRoutes, RowsAreSortedByExpertAndThenByPair) {
  const Ids ids = {2, 0, 0, 2, 3, 0};  // 3 tokens, 2 slots; expert 1 is unused
  GraphRunner runner;
  GraphBuilder b;
  const ExpertRoutes routes = b.expert_routes(b.input("i", DType::i32, {2, 3}), 4);
  b.output(b.expert_rows(b.input("r", DType::f32, {1, 4}), routes), "rows");
  const Value y = b.input("y", DType::f32, {1, 6}), w = b.input("w", DType::f32, {2, 3});
  b.output(b.expert_sum(y, w, routes), "sum");
  ASSERT_OK_AND_ASSIGN(const auto out,
                       runner.run(std::move(b).finish().value(), {{"i", bytes_of(ids)},
                                                                  {"r", bytes_of(Floats{10, 11, 12, 13})},
                                                                  {"y", bytes_of(Floats{1, 2, 3, 4, 5, 6})},
                                                                  {"w", bytes_of(Floats{1, 10, 1, 10, 1, 10})}}));
  EXPECT_EQ(values_of<float>(out.at("rows")), (Floats{10, 10, 10, 12, 12, 13}));
  // Expert 0 has pairs 1, 2, 5, expert 2 has 0 and 3, expert 3 has 4. So the rows of pairs 0 to 5, counted from 1, are
  // 4, 1, 2, 5, 6, 3.
  EXPECT_EQ(values_of<float>(out.at("sum")), (Floats{4 + 10, 2 + 50, 6 + 30}));
}

TEST(ExpertRoutes, AnIdOutOfRangeFailsTheRunAndHarmsNothing) {
  for (const int32_t bad : {-1, 4, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    GraphRunner runner("", 2);
    GraphBuilder b;
    const ExpertRoutes routes = b.expert_routes(b.input("i", DType::i32, {2, 2}), 4);
    b.output(b.expert_rows(b.input("r", DType::f32, {1, 4}), routes), "y");
    const auto done = runner.run(std::move(b).finish().value(),
                                 {{"i", bytes_of(Ids{0, bad, 3, 1})}, {"r", bytes_of(Floats{0, 1, 2, 3})}});
    EXPECT_ERROR(done, "want 0 to 3");
  }
}

TEST(ExpertSum, AddsInTheOrderOfSlots) {
  Rng rng(5);
  for (const auto& [n, n_used, t] :
       {std::array<int64_t, 3>{1, 1, 1}, {64, 4, 3}, {100, 3, 7}, {300, 8, 40}, {5, 2, 0}}) {
    const int64_t n_pairs = n_used * t, n_experts = 9;
    Ids ids;
    for (int64_t i = 0; i < n_pairs; ++i) ids.push_back(static_cast<int32_t>(rng.next_u32() % n_experts));
    const Floats y = random_values(rng, n * n_pairs), w = random_values(rng, n_pairs);
    // The row of each pair.
    std::vector<int64_t> row_of(ids.size());
    int64_t row = 0;
    for (int32_t e = 0; e < n_experts; ++e)
      for (size_t p = 0; p < ids.size(); ++p)
        if (ids[p] == e) row_of[p] = row++;
    std::vector<float> want;
    for (int64_t token = 0; token < t; ++token)
      for (int64_t c = 0; c < n; ++c) {
        float sum = 0;  // each product and sum is rounded, without contraction
        for (int64_t slot = 0; slot < n_used; ++slot) {
          const auto pair = static_cast<size_t>(token * n_used + slot);
          const float p = w[pair] * y[static_cast<size_t>(row_of[pair] * n + c)];
          sum += p;
        }
        want.push_back(sum);
      }
    run_everywhere(
        [&](const Device&) {
          GraphBuilder b;
          const ExpertRoutes routes = b.expert_routes(b.input("i", DType::i32, {n_used, t}), n_experts);
          b.output(b.expert_sum(b.input("y", DType::f32, {n, n_pairs}), b.input("w", DType::f32, {n_used, t}), routes),
                   "y");
          return std::move(b).finish().value();
        },
        {{"i", bytes_of(ids)}, {"y", bytes_of(y)}, {"w", bytes_of(w)}},
        [&](const Floats& sums) { EXPECT_EQ(sums, want); });
  }
}

}  // namespace
}  // namespace tessera
