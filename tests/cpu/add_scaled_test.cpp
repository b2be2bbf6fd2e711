// add_scaled on the CPU: rows of scale 0 keep their bits, others get scale * factor * d.
#include <gtest/gtest.h>

#include "tests/support/graph_runner.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

using Floats = std::vector<float>;

TEST(AddScaled, ByHand) {
  GraphRunner runner;
  GraphBuilder b;
  const Value y = b.input("in", DType::f32, {2, 3}), s = b.input("s", DType::f32, {1, 3});
  b.output(b.add_scaled(y, b.input("d", DType::f32, {2, 3}), s, 0.5f), "rows");
  b.output(b.add_scaled(y, b.input("v", DType::f32, {2}), s), "vector");
  ASSERT_OK_AND_ASSIGN(const auto out,
                       runner.run(std::move(b).finish().value(), {{"in", bytes_of(Floats{1, 2, 3, 4, 5, 6})},
                                                                  {"s", bytes_of(Floats{2, 0, -1})},
                                                                  {"d", bytes_of(Floats{10, 20, 30, 40, 50, 60})},
                                                                  {"v", bytes_of(Floats{100, 200})}}));
  EXPECT_EQ(values_of<float>(out.at("rows")), (Floats{11, 22, 3, 4, -20, -24}));
  EXPECT_EQ(values_of<float>(out.at("vector")), (Floats{201, 402, 3, 4, -95, -194}));
}

TEST(AddScaled, RowsOfScaleZeroKeepTheirBitsWhateverIsAdded) {
  const Floats y = {-0.0f, kNaN, kInf, 1};
  GraphBuilder b;
  b.output(b.add_scaled(b.input("in", DType::f32, {4, 1}), b.input("d", DType::f32, {4, 1}),
                        b.input("s", DType::f32, {1, 1})),
           "y");
  const Graph graph = std::move(b).finish().value();
  for (const float scale : {0.0f, -0.0f}) {
    GraphRunner runner;
    ASSERT_OK_AND_ASSIGN(const auto out, runner.run_y(graph, {{"in", bytes_of(y)},
                                                              {"d", bytes_of(Floats{1, kInf, kNaN, kNaN})},
                                                              {"s", bytes_of(Floats{scale})}}));
    EXPECT_TRUE(same_bytes(out, y));
  }
}

TEST(AddScaled, IsTheSameForAnyNumberOfThreads) {
  Rng rng(3);
  for (const auto& [n, t] : {std::pair<int64_t, int64_t>{1, 1}, {100, 7}, {1024, 3}, {2500, 5}, {64, 0}}) {
    const Floats y = random_values(rng, n * t), d = random_values(rng, n * t);
    Floats s = random_values(rng, t);
    if (t > 1) s[1] = 0;
    std::vector<double> want;
    for (size_t i = 0; i < y.size(); ++i)
      want.push_back(double{y[i]} + double{s[i / static_cast<size_t>(n)]} * 0.75 * double{d[i]});
    const auto build = [n = n, t = t](const Device&) {
      GraphBuilder b;
      const Value in = b.input("in", DType::f32, {n, t});
      b.output(b.add_scaled(in, b.input("d", DType::f32, {n, t}), b.input("s", DType::f32, {1, t}), 0.75f), "y");
      return std::move(b).finish().value();
    };
    run_everywhere(build, {{"in", bytes_of(y)}, {"d", bytes_of(d)}, {"s", bytes_of(s)}},
                   [&](const Floats& out) { expect_near(out, want, 1e-6); });  // two roundings
  }
}

TEST(AddScaled, WithRoutesAPairHasItsTokensScale) {
  GraphRunner runner;
  GraphBuilder b;
  const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {2, 3}), 4);
  const Value y = b.input("in", DType::f32, {1, 6}), d = b.input("d", DType::f32, {1, 6});
  b.output(b.add_scaled(y, d, b.input("s", DType::f32, {1, 3}), 1.0f, routes), "y");
  // Rows are pairs 1, 2, 5, 0, 3, 4: of tokens 0, 1, 2, 0, 1, 2.
  ASSERT_OK_AND_ASSIGN(const auto out, runner.run_y(std::move(b).finish().value(),
                                                    {{"ids", bytes_of(std::vector<int32_t>{2, 0, 0, 2, 3, 0})},
                                                     {"in", bytes_of(Floats(6, 0.0f))},
                                                     {"d", bytes_of(Floats(6, 1.0f))},
                                                     {"s", bytes_of(Floats{10, 20, 30})}}));
  EXPECT_EQ(out, (Floats{10, 20, 30, 10, 20, 30}));
}

}  // namespace
}  // namespace tessera
