// The operations that single architectures need, as graphs: concat, temperature, top_groups, mul_mat_heads.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/graph_runner.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

TEST(CpuOps, ConcatPutsRowsBehindRows) {
  Rng rng(1);
  for (const int64_t n_tokens : {0, 1, 5}) {
    const std::vector<float> a = random_values(rng, 3 * 2 * n_tokens), c = random_values(rng, 4 * n_tokens);
    std::vector<double> expected;
    for (int64_t t = 0; t < n_tokens; ++t)
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t i = 0; i < 3; ++i) expected.push_back(a[static_cast<size_t>((t * 2 + h) * 3 + i)]);
        for (int64_t i = 0; i < 4; ++i)
          expected.push_back(c[static_cast<size_t>(t * 4 + i)]);  // the same for both heads
      }
    run_everywhere(
        [&](const Device&) {
          GraphBuilder b;
          const Value same = b.view(b.input("c", DType::f32, {4, n_tokens}),
                                    {.shape = {4, 2, n_tokens}, .nb = {4, 0, 16, 16 * n_tokens}}, 0);
          b.output(b.concat(b.input("a", DType::f32, {3, 2, n_tokens}), same), "y");
          return std::move(b).finish().value();
        },
        {{"a", bytes_of(a)}, {"c", bytes_of(c)}}, [&](const auto& y) { expect_near(y, expected, 0); });
  }
}

TEST(CpuOps, TemperatureGrowsByStepsOfItsLength) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.temperature(b.input("p", DType::i32, {6}), {.beta = 0.5f, .length = 100}), "y");
        return std::move(b).finish().value();
      },
      {{"p", bytes_of<int32_t>({0, 99, 100, 199, 250, 100000})}},
      [](const auto& y) {
        const double two = 1 + 0.5 * std::log(2.0);
        expect_near(y, {1, 1, two, two, 1 + 0.5 * std::log(3.0), 1 + 0.5 * std::log(1001.0)}, 1e-6);  // one rounding
      });
}

TEST(CpuOps, TopGroupsKeepsTheGroupsWithTheBestTwo) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.top_groups(b.input("x", DType::f32, {6, 3}), {.n_groups = 3, .n_used = 2}), "y");
        return std::move(b).finish().value();
      },
      // Sums 5, 6, 4; then equals, of which the lower stay; then negative ones.
      {{"x", bytes_of<float>({5, 0, 3, 3, 1, 3, 1, 1, 2, 0, 0, 2, -1, -9, -2, -3, -4, -5})}},
      [](const auto& y) {
        EXPECT_EQ(
            y, (std::vector<float>{5, 0, 3, 3, -kInf, -kInf, 1, 1, 2, 0, -kInf, -kInf, -kInf, -kInf, -2, -3, -4, -5}));
      });
}

TEST(CpuOps, TopGroupsOfOneExpertAreTheBestExperts) {
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

// Packed weights and plain ones, x as rows of a wider matrix; the same bits for each token alone.
TEST(CpuOps, MulMatHeadsGivesEachHeadItsMatrix) {
  constexpr int64_t kIn = 40, kOut = 21, kHeads = 3, kWide = 50;
  Rng rng(3);
  const Shape shape{kIn, kOut, kHeads};
  const std::vector<float> w = random_values(rng, shape.n_elements());
  for (const int64_t n_tokens : {0, 1, 2, 37}) {
    const std::vector<float> x = random_values(rng, kWide * kHeads * n_tokens);
    std::vector<double> expected;
    for (int64_t t = 0; t < n_tokens; ++t)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t o = 0; o < kOut; ++o) {
          double sum = 0;
          for (int64_t i = 0; i < kIn; ++i)
            sum += double{w[static_cast<size_t>((h * kOut + o) * kIn + i)]} *
                   double{x[static_cast<size_t>((t * kHeads + h) * kWide + 5 + i)]};
          expected.push_back(sum);
        }
    std::vector<float> first;
    for (const bool is_packed : {false, true})
      for (const int n_threads : {1, 3}) {
        GraphRunner runner("", n_threads);
        const BufferType& type = is_packed ? runner.device().weight_buffer_type(Op::mul_mat_heads, DType::f32, shape)
                                           : runner.device().buffer_type();
        const OwnedTensor weights(type, "w", DType::f32, shape, bytes_of(w));
        GraphBuilder b;
        const Value wide = b.input("x", DType::f32, {kWide, kHeads, n_tokens});
        Layout layout = b.spec(wide).layout;
        layout.shape[0] = kIn;
        b.output(b.mul_mat_heads(b.tensor(weights.tensor), b.view(wide, layout, 20)), "y");
        ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(x)}}));
        expect_near(y, expected, 1e-5);  // f32 sums of 40 products
        if (first.empty()) first = y;
        EXPECT_TRUE(same_bytes(y, first)) << is_packed << " " << n_threads;
      }
  }
}

TEST(CpuOps, MulMatHeadsOfATokenDoesNotDependOnOthers) {
  const Shape shape{32, 16, 2};
  Rng rng(4);
  const std::vector<float> w = random_values(rng, shape.n_elements()), x = random_values(rng, 32 * 2 * 20);
  const auto run = [&](const std::vector<float>& rows) {
    GraphRunner runner("", 2);
    const OwnedTensor weights(runner.device().weight_buffer_type(Op::mul_mat_heads, DType::f32, shape), "w", DType::f32,
                              shape, bytes_of(w));
    GraphBuilder b;
    const auto n = static_cast<int64_t>(rows.size()) / 64;
    b.output(b.mul_mat_heads(b.tensor(weights.tensor), b.input("x", DType::f32, {32, 2, n})), "y");
    return runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(rows)}}).value();
  };
  const std::vector<float> together = run(x);
  for (int64_t t = 0; t < 20; ++t) {
    const std::vector<float> alone = run({x.begin() + t * 64, x.begin() + (t + 1) * 64});
    EXPECT_TRUE(same_bytes(alone, {together.begin() + t * 32, together.begin() + (t + 1) * 32})) << t;
  }
}

}  // namespace
}  // namespace tessera
