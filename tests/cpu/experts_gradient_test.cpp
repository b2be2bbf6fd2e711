// Gradients of a mixture of experts, and of the operations in it, against differences of double-precision references.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/gradient_check.h"

namespace tessera {
namespace {

using namespace testing;

using Doubles = std::vector<double>;
using Leaves = std::vector<Doubles>;
using Values = std::vector<Value>;

/// The ids [n_used, n_tokens], and the pair of each row in routed order.
struct ChosenExperts {
  std::vector<int32_t> ids;
  int64_t n_used, n_experts;

  int64_t n_pairs() const { return std::ssize(ids); }
  int64_t n_tokens() const { return n_pairs() / n_used; }
  std::vector<int64_t> pairs() const {
    std::vector<int64_t> order(ids.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    std::ranges::stable_sort(order, {}, [&](int64_t pair) { return ids[static_cast<size_t>(pair)]; });
    return order;
  }
  int64_t expert_of(int64_t pair) const { return ids[static_cast<size_t>(pair)]; }
  GradientLeaf leaf() const { return {.shape = {n_used, n_tokens()}, .numbers = ids}; }
  ExpertRoutes routes(GraphBuilder& b, Value leaf_ids) const { return b.expert_routes(leaf_ids, n_experts); }
};

/// No token uses expert 1.
ChosenExperts five_tokens() { return {.ids = {2, 0, 0, 3, 3, 2, 2, 3, 0, 2}, .n_used = 2, .n_experts = 4}; }

double at(const Doubles& x, int64_t row, int64_t n, int64_t i) { return x[static_cast<size_t>(row * n + i)]; }

/// Rows of x times their experts' matrices [k, n, n_experts], in routed order.
Doubles products(const ChosenExperts& c, const Doubles& w, const Doubles& x, int64_t k, int64_t n, ExpertInput input) {
  Doubles y;
  const std::vector<int64_t> pairs = c.pairs();
  for (int64_t row = 0; row < c.n_pairs(); ++row) {
    const int64_t pair = pairs[static_cast<size_t>(row)];
    const int64_t from = input == ExpertInput::routed ? row : pair / c.n_used;
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += at(w, c.expert_of(pair) * n + j, k, i) * at(x, from, k, i);
      y.push_back(sum);
    }
  }
  return y;
}

GradientCase product_case(int64_t k, int64_t n, ExpertInput input, DType dtype = DType::f32) {
  const ChosenExperts c = five_tokens();
  return {.leaves = {{.shape = {k, n, c.n_experts}, .dtype = dtype},
                     {.shape = {k, input == ExpertInput::routed ? c.n_pairs() : c.n_tokens()}},
                     c.leaf()},
          .build = [=](GraphBuilder& b,
                       const Values& v) { return b.mul_mat_experts(v[0], v[1], c.routes(b, v[2]), input); },
          .reference = [=](const Leaves& l) { return products(c, l[0], l[1], k, n, input); },
          .gradient_ops = dtype == DType::f32 ? std::vector{Op::expert_outer} : std::vector<Op>{}};
}

TEST(ExpertGradients, OfProductsWithRowsOfTokens) { check_gradients(product_case(5, 7, ExpertInput::tokens)); }
TEST(ExpertGradients, OfProductsWithRoutedRows) { check_gradients(product_case(18, 3, ExpertInput::routed)); }
TEST(ExpertGradients, OfProductsWithFrozenQuantizedWeights) {
  check_gradients(product_case(32, 5, ExpertInput::tokens, DType::q8_0));
}

TEST(ExpertGradients, OfRowsOfExperts) {
  const ChosenExperts c = five_tokens();
  const int64_t n = 70;  // more than one piece of columns
  check_gradients({.leaves = {{.shape = {n, c.n_experts}}, c.leaf()},
                   .build = [=](GraphBuilder& b, const Values& v) { return b.expert_rows(v[0], c.routes(b, v[1])); },
                   .reference =
                       [=](const Leaves& l) {
                         Doubles y;
                         for (const int64_t pair : c.pairs())
                           for (int64_t i = 0; i < n; ++i) y.push_back(at(l[0], c.expert_of(pair), n, i));
                         return y;
                       },
                   .gradient_ops = {Op::expert_totals}});
}

TEST(ExpertGradients, OfSumsOverATokensPairs) {
  const ChosenExperts c = five_tokens();
  const int64_t n = 19;
  check_gradients(
      {.leaves = {{.shape = {n, c.n_pairs()}}, {.shape = {c.n_used, c.n_tokens()}}, c.leaf()},
       .build = [=](GraphBuilder& b, const Values& v) { return b.expert_sum(v[0], v[1], c.routes(b, v[2])); },
       .reference =
           [=](const Leaves& l) {
             Doubles y(static_cast<size_t>(n * c.n_tokens()));
             const std::vector<int64_t> pairs = c.pairs();
             for (int64_t row = 0; row < c.n_pairs(); ++row)
               for (int64_t i = 0; i < n; ++i) {
                 const int64_t pair = pairs[static_cast<size_t>(row)];
                 y[static_cast<size_t>(pair / c.n_used * n + i)] +=
                     l[1][static_cast<size_t>(pair)] * at(l[0], row, n, i);
               }
             return y;
           },
       .gradient_ops = {Op::expert_spread, Op::expert_dot}});
}

GradientCase weights_case(const ExpertWeightsParams& params, float low, float high) {
  const ChosenExperts c = five_tokens();
  return {.leaves = {{.shape = {c.n_experts, c.n_tokens()}, .low = low, .high = high}, c.leaf()},
          .build = [=](GraphBuilder& b, const Values& v) { return b.expert_weights(v[0], v[1], params); },
          .reference =
              [=](const Leaves& l) {
                Doubles y;
                for (int64_t t = 0; t < c.n_tokens(); ++t) {
                  double sum = 0;
                  for (int64_t slot = 0; slot < c.n_used; ++slot)
                    sum += y.emplace_back(at(l[0], t, c.n_experts, c.expert_of(t * c.n_used + slot)));
                  const double divisor = params.normalize ? std::max(sum, double{kMinExpertWeightSum}) : 1.0;
                  for (size_t i = y.size() - static_cast<size_t>(c.n_used); i < y.size(); ++i)
                    y[i] *= double{params.scale} / divisor;
                }
                return y;
              },
          .gradient_ops = {Op::expert_weights_grad}};
}

TEST(ExpertGradients, OfChosenScores) { check_gradients(weights_case({.scale = 1.5f}, -1.0f, 1.0f)); }
TEST(ExpertGradients, OfChosenScoresDividedByTheirSum) {
  check_gradients(weights_case({.normalize = true, .scale = 2.5f}, 0.1f, 1.0f));
}
TEST(ExpertGradients, OfScoresWithASumTooSmallToDivideBy) {
  // All sums are negative: the divisor is a constant.
  check_gradients(weights_case({.normalize = true}, -1.0f, -0.1f));
}

TEST(ExpertGradients, OfAdaptersAddedToRoutedRows) {
  const ChosenExperts c = five_tokens();
  const int64_t n = 6;
  check_gradients({.leaves = {{.shape = {n, c.n_pairs()}},
                              {.shape = {n, c.n_pairs()}},
                              {.shape = {1, c.n_tokens()}, .low = 0.2f, .high = 1.0f},
                              c.leaf()},
                   .build = [=](GraphBuilder& b,
                                const Values& v) { return b.add_scaled(v[0], v[1], v[2], 0.7f, c.routes(b, v[3])); },
                   .reference =
                       [=](const Leaves& l) {
                         Doubles y;
                         const std::vector<int64_t> pairs = c.pairs();
                         for (int64_t row = 0; row < c.n_pairs(); ++row)
                           for (int64_t i = 0; i < n; ++i)
                             y.push_back(at(l[0], row, n, i) +
                                         double{0.7f} *
                                             l[2][static_cast<size_t>(pairs[static_cast<size_t>(row)] / c.n_used)] *
                                             at(l[1], row, n, i));
                         return y;
                       }});
}

// Two of four groups are kept. Scores of the others are -inf, from which no finite value results.
TEST(ExpertGradients, OfGroupsPassToThoseThatAreKept) {
  GradientCase c{
      .leaves = {{.shape = {8, 1}, .values = {1, 2, 9, 8, 3, 4, 7, 6}}},
      .build = [](GraphBuilder& b, const Values& v) { return b.top_groups(v[0], {.n_groups = 4, .n_used = 2}); }};
  const GraphRunner runner;
  const GradientLeaves leaves(c, runner.device());
  ASSERT_OK_AND_ASSIGN(auto graph, build_with_gradients(c, leaves));
  const std::vector<float> dy = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_OK_AND_ASSIGN(const auto out, runner.run(std::move(graph), {{"dy", bytes_of(dy)}}));
  EXPECT_EQ(values_of<float>(out.at("d_leaf0")), (std::vector<float>{0, 0, 3, 4, 0, 0, 7, 8}));
}

// Whole and partial panels of columns, tiles of rows of y, more rows than are packed at a time, experts without rows.
void check_outer(int64_t k, int64_t n, int64_t n_tokens, ExpertInput input) {
  ChosenExperts c{.ids = {}, .n_used = 3, .n_experts = 5};
  Rng rng(5);
  for (int64_t i = 0; i < n_tokens * c.n_used; ++i)  // half of the pairs are expert 3's, none expert 1's
    c.ids.push_back(rng.next_u32() % 2 == 0 ? 3 : static_cast<int32_t>(rng.next_u32() % 3) * 2);
  const int64_t n_x = input == ExpertInput::routed ? c.n_pairs() : c.n_tokens();
  const std::vector<float> x = random_values(rng, k * n_x), y = random_values(rng, n * c.n_pairs());
  Doubles expected(static_cast<size_t>(k * n * c.n_experts));
  const std::vector<int64_t> pairs = c.pairs();
  for (int64_t row = 0; row < c.n_pairs(); ++row) {
    const int64_t pair = pairs[static_cast<size_t>(row)];
    const int64_t x_row = input == ExpertInput::routed ? row : pair / c.n_used;
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < k; ++i)
        expected[static_cast<size_t>((c.expert_of(pair) * n + j) * k + i)] +=
            double{x[static_cast<size_t>(x_row * k + i)]} * y[static_cast<size_t>(row * n + j)];
  }
  const auto build = [&](const Device&) {
    GraphBuilder b;
    const ExpertRoutes routes = c.routes(b, b.input("ids", DType::i32, {c.n_used, c.n_tokens()}));
    const Value xs = b.input("x", DType::f32, {k, n_x}), ys = b.input("dy", DType::f32, {n, c.n_pairs()});
    b.output(b.expert_outer(xs, ys, routes, input), "y");
    return std::move(b).finish().value();
  };
  run_everywhere(build, {{"ids", bytes_of(c.ids)}, {"x", bytes_of(x)}, {"dy", bytes_of(y)}},
                 [&](const std::vector<float>& got) { expect_near(got, expected, 2e-5); });  // sums of 150 products
}

TEST(ExpertOuter, IsTheSumOverAnExpertsPairs) {
  check_outer(1, 1, 1, ExpertInput::tokens);
  check_outer(70, 27, 100, ExpertInput::tokens);
  check_outer(140, 12, 95, ExpertInput::routed);
  check_outer(64, 25, 4, ExpertInput::routed);
}

}  // namespace
}  // namespace tessera
