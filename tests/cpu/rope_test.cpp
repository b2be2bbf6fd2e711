// RoPE with its table, and temperatures by position, in graphs. rope_kernels_test.cpp checks the accuracy of the
// kernels.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

// A few roundings of f32 (2^-24 each), and sin() and cos() to a few ulp.
constexpr double kRopeTolerance = 2e-6;

TEST(Rope, RopeTableAndRope) {
  const std::vector<int32_t> positions{0, 1, 100, 3000};
  for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::halves})
    for (const int64_t n_rot : {8, 12}) {
      const int64_t dim = 12, n_heads = 3;
      Rng rng(11);
      const std::vector<float> x = random_values(rng, dim * n_heads * 4), factors{1, 2, 1, 4, 1, 0.5f};
      std::vector<double> expected(x.begin(), x.end());
      for (int64_t t = 0; t < 4; ++t)
        for (int64_t h = 0; h < n_heads; ++h)
          for (int64_t i = 0; i < n_rot / 2; ++i) {
            const double angle = positions[static_cast<size_t>(t)] * 0.25 / factors[static_cast<size_t>(i)] *
                                 std::pow(500.0, -2.0 * static_cast<double>(i) / static_cast<double>(n_rot));
            const int64_t head = (t * n_heads + h) * dim;
            const auto p = static_cast<size_t>(head + (pairs == RopePairs::adjacent ? 2 * i : i));
            const auto q = p + static_cast<size_t>(pairs == RopePairs::adjacent ? 1 : n_rot / 2);
            expected[p] = (x[p] * std::cos(angle) - x[q] * std::sin(angle)) * 1.5;
            expected[q] = (x[p] * std::sin(angle) + x[q] * std::cos(angle)) * 1.5;
          }
      run_everywhere(
          [&](const Device&) {
            GraphBuilder b;
            const Value table =
                b.rope_table(b.input("positions", DType::i32, {4}), b.input("factors", DType::f32, {n_rot / 2}),
                             {.n_rot = n_rot, .freq_base = 500.0f, .freq_scale = 0.25f, .magnitude = 1.5f});
            b.output(b.rope(b.input("x", DType::f32, {dim, n_heads, 4}), table, pairs), "y");
            return std::move(b).finish().value();
          },
          {{"positions", bytes_of(positions)},
           {"factors", bytes_of(std::vector<float>(factors.begin(), factors.begin() + n_rot / 2))},
           {"x", bytes_of(x)}},
          [&](const auto& y) { expect_near(y, expected, kRopeTolerance); });
    }
}

// n_rot 4: pair 0 extrapolates (ramp 1), pair 1 interpolates (ramp 0).
TEST(Rope, RopeTableMixesAnglesForYarn) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(
            b.rope_table(
                b.input("p", DType::i32, {1}), Value(),
                {.n_rot = 4, .freq_base = 100.0f, .freq_scale = 0.5f, .yarn_ext = 1, .yarn_low = 0, .yarn_high = 1}),
            "y");
        return std::move(b).finish().value();
      },
      {{"p", bytes_of<int32_t>({3})}},
      [](const auto& y) {
        expect_near(y, {std::cos(3.0), std::sin(3.0), std::cos(0.15), std::sin(0.15)}, kRopeTolerance);
      });
}

TEST(Rope, TemperatureGrowsByStepsOfItsLength) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.temperature(b.input("p", DType::i32, {6}), {.beta = 0.5f, .length = 100, .offset = 1}), "y");
        return std::move(b).finish().value();
      },
      {{"p", bytes_of<int32_t>({0, 99, 100, 199, 250, 100000})}},
      [](const auto& y) {
        const double two = 1 + 0.5 * std::log(2.0), three = 1 + 0.5 * std::log(3.0);
        expect_near(y, {1, two, two, three, three, 1 + 0.5 * std::log(1001.0)}, 1e-6);  // one rounding
      });
}

}  // namespace
}  // namespace tessera
