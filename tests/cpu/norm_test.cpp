// Operations on whole rows and sums along one dimension, in graphs. norm_kernels_test.cpp checks the accuracy of the
// kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tests/cpu/ops_testing.h"

namespace tessera {
namespace {

using namespace testing;

TEST(Norm, SoftMax) {
  check_row_op([](auto& b, Value x) { return b.soft_max(x); },
               [](Row x) {
                 const double max = *std::ranges::max_element(x);
                 double sum = 0;
                 for (double& v : x) sum += v = std::exp(v - max);
                 for (double& v : x) v /= sum;
                 return x;
               });
}

TEST(Norm, RmsNorm) {
  check_row_op([](auto& b, Value x) { return b.rms_norm(x, Value(), 1e-5f); },
               [](Row x) {
                 double sum = 0;
                 for (const double v : x) sum += v * v;
                 for (double& v : x) v /= std::sqrt(sum / static_cast<double>(x.size()) + 1e-5f);
                 return x;
               });
}

TEST(Norm, RmsNormMultipliesByItsWeight) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.rms_norm(b.input("x", DType::f32, {2, 2}), b.input("w", DType::f32, {2}), 0.0f), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of<float>({1, 7, -3, 3})}, {"w", bytes_of<float>({10, 20})}},  // root mean squares 5 and 3
      [](const auto& y) {
        expect_near(y, {2, 28, -10, 20}, kRowTolerance);
      });
}

TEST(Norm, LayerNorm) {
  check_row_op([](auto& b, Value x) { return b.layer_norm(x, Value(), Value(), 1e-2f); },
               [](Row x) {
                 const auto n = static_cast<double>(x.size());
                 double mean = 0, variance = 0;
                 for (const double v : x) mean += v / n;
                 for (const double v : x) variance += (v - mean) * (v - mean) / n;
                 for (double& v : x) v = (v - mean) / std::sqrt(variance + double{1e-2f});
                 return x;
               });
}

TEST(Norm, LayerNormHasAWeightABiasOrBoth) {
  const NamedBytes inputs{{"x", bytes_of<float>({1, 7, -3, 3})},  // mean 4 and deviation 3; 0 and 3
                          {"w", bytes_of<float>({10, 20})},
                          {"b", bytes_of<float>({0.5f, -0.5f})}};
  for (const auto& [has_weight, has_bias, expected] :
       std::vector<std::tuple<bool, bool, std::vector<double>>>{{true, false, {-10, 20, -10, 20}},
                                                                {false, true, {-0.5, 0.5, -0.5, 0.5}},
                                                                {true, true, {-9.5, 19.5, -9.5, 19.5}}})
    run_everywhere(
        [&](const Device&) {
          GraphBuilder g;
          const Value x = g.input("x", DType::f32, {2, 2}), w = g.input("w", DType::f32, {2}),
                      b = g.input("b", DType::f32, {2});
          g.output(g.layer_norm(x, has_weight ? w : Value(), has_bias ? b : Value(), 0.0f), "y");
          return std::move(g).finish().value();
        },
        inputs, [&](const auto& y) { expect_near(y, expected, kRowTolerance); });
}

TEST(L2Norm, DividesByTheNormOrByEps) {
  Rng rng(5);
  for (const int64_t n : {1, 7, 128, 200}) {
    std::vector<float> x = random_values(rng, n * 3);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) x[i] *= 1e-8f;  // with a norm below eps
    std::vector<double> expected;
    for (size_t row = 0; row < 3; ++row) {
      double square = 0;
      for (int64_t i = 0; i < n; ++i)
        square += std::pow(double{x[row * static_cast<size_t>(n) + static_cast<size_t>(i)]}, 2);
      for (int64_t i = 0; i < n; ++i)
        expected.push_back(x[row * static_cast<size_t>(n) + static_cast<size_t>(i)] /
                           std::max(std::sqrt(square), 1e-4));
    }
    run_everywhere(
        [&](const Device&) {
          GraphBuilder b;
          b.output(b.l2_norm(b.input("x", DType::f32, {n, 3}), 1e-4f), "y");
          return std::move(b).finish().value();
        },
        {{"x", bytes_of(x)}}, [&](const std::vector<float>& y) { expect_near(y, expected, 1e-6); });
  }
}

TEST(RowSum, AddsUpEachRow) {
  Rng rng(6);
  for (const int64_t n : {1, 7, 64, 130}) {
    const std::vector<float> x = random_values(rng, n * 5 * 2);
    std::vector<double> expected(10, 0.0);
    for (size_t i = 0; i < x.size(); ++i) expected[i / static_cast<size_t>(n)] += x[i];
    run_everywhere(
        [&](const Device&) {
          GraphBuilder b;
          b.output(b.row_sum(b.input("x", DType::f32, {n, 5, 2})), "y");
          return std::move(b).finish().value();
        },
        {{"x", bytes_of(x)}}, [&](const std::vector<float>& y) { expect_near(y, expected, 1e-5); });
  }
}

// --- sum_squares

TEST(Norm, SumSquaresSumsEachColumn) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.sum_squares(b.input("x", DType::f32, {2, 3})), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of<float>({1, 2, -3, 0, 5, 0.5f})}},
      [](const auto& y) {
        expect_near(y, {35, 4.25}, 0);
      });
}

TEST(Norm, SumSquaresOfAnyShape) {
  for (const int64_t n : {1, 63, 64, 65, 300})
    for (const int64_t t : {0, 1, 7, 500})
      for (const bool is_strided : {false, true}) {
        Rng rng(static_cast<uint64_t>(n * 1000 + t));
        const std::vector<float> x = random_values(rng, n * t * kStrides, 4.0f);
        std::vector<double> expected(static_cast<size_t>(n));
        for (int64_t row = 0; row < t * kStrides; row += is_strided ? kStrides : 1)
          for (int64_t i = 0; i < n; ++i)
            expected[static_cast<size_t>(i)] += std::pow(static_cast<double>(x[static_cast<size_t>(row * n + i)]), 2);
        run_everywhere(
            [&](const Device&) {
              GraphBuilder b;
              const Value all = b.input("x", DType::f32, {n, t * kStrides});
              const int64_t nb = 4 * n * kStrides;
              b.output(
                  b.sum_squares(is_strided ? b.view(all, {.shape = {n, t}, .nb = {4, nb, nb * t, nb * t}}, 0) : all),
                  "y");
              return std::move(b).finish().value();
            },
            {{"x", bytes_of(x)}},
            // Up to 1500 positive terms, each addition rounded to 2^-24.
            [&](const auto& y) { expect_near(y, expected, 1e-4); });
      }
}

// 1 + 2^-24 is 1: summing from the first row loses small terms, summing from the last row would not.
TEST(Norm, SumSquaresAddsInTheOrderOfTheRows) {
  std::vector<float> x(70 * 4097, 1.0f / 4096);
  std::fill_n(x.begin(), 70, 1.0f);
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.sum_squares(b.input("x", DType::f32, {70, 4097})), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of(x)}}, [](const auto& y) { expect_near(y, std::vector<double>(70, 1.0), 0); });
}

}  // namespace
}  // namespace tessera
