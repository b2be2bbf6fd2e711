// The shape rules of mixture-of-experts operations: accepted operands with their results, and each refusal.
#include <limits>

#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

Value weights(GraphBuilder& b, const Shape& shape) { return b.input("w", DType::q8_0, shape); }

TEST(TopKRule, GivesIdsPerRow) {
  expect_shape([](auto& b) { return b.top_k(f32(b, {8, 3}), 2); }, {2, 3}, DType::i32);
  expect_shape([](auto& b) { return b.top_k(f32(b, {8, 0}), 8); }, {8, 0}, DType::i32);
  expect_shape([](auto& b) { return b.top_k(f32(b, {8, 3}), 8, 3); }, {8, 3}, DType::i32);
  expect_refused([](auto& b) { return b.top_k(f32(b, {8, 3}), 2, 0); }, "divisor 0, want 1 to 65536");
  expect_refused([](auto& b) { return b.top_k(f32(b, {8, 3}), 9); }, "k 9, want 1 to 8");
  expect_refused([](auto& b) { return b.top_k(f32(b, {8, 3}), 0); }, "k 0, want 1 to 8");
  expect_refused([](auto& b) { return b.top_k(f32(b, {8, 3}), -1); }, "k -1");
  expect_refused([](auto& b) { return b.top_k(f32(b, {8, 3, 2}), 2); }, "more than two dimensions");
  expect_refused([](auto& b) { return b.top_k(i32(b, {8, 3}), 2); }, "scores is i32, want f32");
}

TEST(ExpertWeightsRule, TakesScoresAndIdsOfTheSameTokens) {
  expect_shape([](auto& b) { return b.expert_weights(f32(b, {8, 3}), i32(b, {2, 3}), {}); }, {2, 3});
  expect_refused([](auto& b) { return b.expert_weights(f32(b, {8, 3}), i32(b, {2, 4}), {}); }, "want scores [n, t]");
  expect_refused([](auto& b) { return b.expert_weights(f32(b, {8, 3}), f32(b, {2, 3}), {}); }, "ids is f32, want i32");
  expect_refused([](auto& b) { return b.expert_weights(f32(b, {8, 3, 2}), i32(b, {2, 3}), {}); }, "want scores [n, t]");
  const float inf = std::numeric_limits<float>::infinity();
  expect_refused([&](auto& b) { return b.expert_weights(f32(b, {8, 3}), i32(b, {2, 3}), {.scale = inf}); }, "scale");
}

TEST(TopGroupsRule, WantsGroupsOfOneSize) {
  const auto groups = [](auto& b, int64_t n, int64_t n_used) {
    return b.top_groups(f32(b, {12, 5}), {.n_groups = n, .n_used = n_used});
  };
  expect_shape([&](auto& b) { return groups(b, 4, 4); }, {12, 5});
  expect_shape([&](auto& b) { return groups(b, 12, 1); }, {12, 5});
  expect_refused([&](auto& b) { return groups(b, 5, 2); }, "2 of 5 groups of 12 experts");
  expect_refused([&](auto& b) { return groups(b, 4, 5); }, "5 of 4 groups");
  expect_refused([&](auto& b) { return groups(b, 4, 0); }, "0 of 4 groups");
  expect_refused([&](auto& b) { return groups(b, 0, 0); }, "0 of 0 groups");
  expect_refused([](auto& b) { return b.top_groups(f32(b, {1024}), {.n_groups = 1024, .n_used = 1}); },
                 "of 1024 groups");
}

TEST(ExpertRoutesRule, WantsAMatrixOfIds) {
  const auto routes = [](const Shape& ids, int64_t n_experts) {
    return [=](GraphBuilder& b) {
      b.expert_routes(i32(b, ids), n_experts);
      return Value();
    };
  };
  expect_refused(routes({2, 3}, 0), "0 experts");
  expect_refused(routes({2, 3}, int64_t{1} << 40), "experts, want 1 to");
  expect_refused(routes({2, 3, 2}, 4), "want a contiguous matrix");
  expect_refused(routes({int64_t{1} << 30, 2}, 4), "pairs, limit");
}

Build product(const Shape& w, const Shape& x, const Shape& ids, ExpertInput input, int64_t n_experts = 4) {
  return [=](GraphBuilder& b) {
    return b.mul_mat_experts(weights(b, w), f32(b, x), b.expert_routes(i32(b, ids), n_experts), input);
  };
}

TEST(MulMatExpertsRule, GivesARowPerPair) {
  expect_shape(product({32, 5, 4}, {32, 3}, {2, 3}, ExpertInput::tokens), {5, 6});
  expect_shape(product({32, 5, 4}, {32, 6}, {2, 3}, ExpertInput::routed), {5, 6});
  expect_shape(product({32, 5, 4}, {32, 0}, {2, 0}, ExpertInput::tokens), {5, 0});
  expect_shape(product({32, 5, 1}, {32, 3}, {1, 3}, ExpertInput::tokens, 1), {5, 3});
}

TEST(MulMatExpertsRule, RefusesWhatDoesNotFit) {
  expect_refused(product({32, 5, 4}, {32, 3}, {2, 3}, ExpertInput::routed), "x of 3 rows does not fit 6 pairs");
  expect_refused(product({32, 5, 4}, {32, 4}, {2, 3}, ExpertInput::tokens), "x of 4 rows does not fit 6 pairs");
  expect_refused(product({32, 5, 4}, {32, 0}, {2, 3}, ExpertInput::tokens), "x of 0 rows does not fit 6 pairs");
  expect_refused(product({32, 5, 4}, {64, 3}, {2, 3}, ExpertInput::tokens), "weights have 32 columns, x has 64 rows");
  expect_refused(product({0, 5, 4}, {0, 3}, {2, 3}, ExpertInput::tokens), "rows are empty");
  expect_refused(product({32, 5, 4, 2}, {32, 3}, {2, 3}, ExpertInput::tokens), "want weights [k, n, n_experts]");
  expect_refused(product({32, 5, 4}, {32, 3, 2}, {2, 3}, ExpertInput::tokens), "want weights [k, n, n_experts]");
  // Two experts fewer give the same number of entries as one pair more.
  expect_refused(product({32, 5, 2}, {32, 7}, {2, 3}, ExpertInput::routed), "weights of 2 experts, routes of 4");
}

TEST(ExpertRowsRule, GivesARowPerPair) {
  const auto rows = [](const Shape& rows) {
    return [=](GraphBuilder& b) { return b.expert_rows(f32(b, rows), b.expert_routes(i32(b, {2, 3}), 4)); };
  };
  expect_shape(rows({5, 4}), {5, 6});
  expect_refused(rows({5, 2}), "weights of 2 experts, routes of 4");
  expect_refused(rows({5, 4, 2}), "more than two dimensions");
}

TEST(ExpertSumRule, GivesARowPerToken) {
  const auto sum = [](const Shape& y, const Shape& w) {
    return [=](GraphBuilder& b) { return b.expert_sum(f32(b, y), f32(b, w), b.expert_routes(i32(b, {2, 3}), 4)); };
  };
  expect_shape(sum({5, 6}, {2, 3}), {5, 3});
  for (const auto& [y, w] : {std::pair<Shape, Shape>{{5, 5}, {2, 3}}, {{5, 7}, {7, 1}}, {{5, 6, 2}, {2, 3}}})
    expect_refused(sum(y, w), "want y [n, n_pairs]");
  expect_refused(sum({5, 6}, {2, 4}), "weights [2, 4] for 6 pairs of 4 tokens");
  expect_shape(
      [](auto& b) {
        return b.expert_sum(f32(b, {5, 6}), Value(), b.expert_routes(i32(b, {2, 3}), 4));
      },
      {5, 3});
}

TEST(ExpertGradientRules, GiveAMatrixOrARowPerExpert) {
  const auto outer = [](const Shape& x, const Shape& y, ExpertInput input) {
    return [=](GraphBuilder& b) {
      return b.expert_outer(f32(b, x), f32(b, y), b.expert_routes(i32(b, {2, 3}), 4), input);
    };
  };
  expect_shape(outer({7, 3}, {5, 6}, ExpertInput::tokens), {7, 5, 4});
  expect_shape(outer({7, 6}, {5, 6}, ExpertInput::routed), {7, 5, 4});
  expect_refused(outer({7, 3}, {5, 6}, ExpertInput::routed), "x of 3 rows does not fit 6 pairs");
  expect_refused(outer({7, 4}, {5, 6}, ExpertInput::tokens), "x of 4 rows does not fit 6 pairs");
  expect_refused(outer({7, 3}, {5, 3}, ExpertInput::tokens), "want x [k, t], y [n, n_pairs]");
  const auto totals = [](const Shape& y) {
    return [=](GraphBuilder& b) { return b.expert_totals(f32(b, y), b.expert_routes(i32(b, {2, 3}), 4)); };
  };
  expect_shape(totals({5, 6}), {5, 4});
  expect_refused(totals({5, 4}), "want y [n, n_pairs]");
}

TEST(ExpertGradientRules, GiveARowPerPair) {
  const auto spread = [](const Shape& x, const Shape& w) {
    return [=](GraphBuilder& b) {
      return b.expert_spread(f32(b, x), w.empty() ? Value() : f32(b, w), b.expert_routes(i32(b, {2, 3}), 4));
    };
  };
  expect_shape(spread({5, 3}, {2, 3}), {5, 6});
  expect_shape(spread({5, 3}, {0}), {5, 6});
  expect_refused(spread({5, 3}, {3, 2}), "weights [3, 2] for 6 pairs of 3 tokens");
  expect_refused(spread({5, 4}, {0}), "x of 4 rows does not fit 6 pairs");
  expect_refused(spread({5, 3, 2}, {0}), "more than two dimensions");
  const auto dot = [](const Shape& y, const Shape& x) {
    return [=](GraphBuilder& b) { return b.expert_dot(f32(b, y), f32(b, x), b.expert_routes(i32(b, {2, 3}), 4)); };
  };
  expect_shape(dot({5, 6}, {5, 3}), {2, 3});
  expect_refused(dot({4, 6}, {5, 3}), "want y [n, n_pairs], x [n, t]");
  expect_refused(dot({5, 6}, {5, 4}), "x of 4 rows does not fit 6 pairs");
}

TEST(ExpertGradientRules, GiveScores) {
  const auto d_scores = [](const Shape& dy) {
    return [=](GraphBuilder& b) { return b.expert_weights_grad(f32(b, {8, 3}), i32(b, {2, 3}), f32(b, dy), {}); };
  };
  expect_shape(d_scores({2, 3}), {8, 3});
  expect_refused(d_scores({3, 2}), "dy [3, 2], want [2, 3]");
}

TEST(ExpertRules, RefuseParametersOfAnotherOperation) {
  const TensorSpec x{DType::f32, contiguous_layout(DType::f32, {8, 64, 1, 1}).value()};
  const TensorSpec* operands[] = {&x, &x, &x};
  for (const auto& [op, n] : {std::pair{Op::top_k, 1u},
                              {Op::expert_weights, 2u},
                              {Op::expert_routes, 1u},
                              {Op::mul_mat_experts, 3u},
                              {Op::expert_rows, 2u},
                              {Op::expert_sum, 3u},
                              {Op::expert_outer, 3u},
                              {Op::expert_totals, 2u},
                              {Op::expert_spread, 3u},
                              {Op::expert_dot, 3u},
                              {Op::expert_weights_grad, 3u}})
    EXPECT_ERROR(infer(op, Operands(operands, n), NoParams{}), "parameters of another op");
}

TEST(Cost, ExpertsThatNoPairCanReachAreNotRead) {
  const auto cost_of = [](int64_t t) {
    GraphBuilder b;
    const Value y = product({32, 5, 4}, {32, t}, {2, t}, ExpertInput::tokens)(b);
    const Graph graph = std::move(b).finish().value();
    return cost(graph, y.id());
  };
  const int64_t expert_bytes = 5 * 34;
  EXPECT_EQ(cost_of(1).macs, 2 * 32 * 5);
  EXPECT_EQ(cost_of(1).bytes, 2 * expert_bytes + 4 * (32 + 2 * 5 + (4 + 1 + 2 * 2)));
  EXPECT_EQ(cost_of(3).macs, 6 * 32 * 5);
  EXPECT_EQ(cost_of(3).bytes, 4 * expert_bytes + 4 * (3 * 32 + 6 * 5 + (4 + 1 + 2 * 6)));
}

}  // namespace
}  // namespace tessera
