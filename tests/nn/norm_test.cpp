// Norms with and without weights, and the three weight shapes of head norms.
#include "tessera/nn/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kDim = 6, kHeads = 3, kNormTokens = 4;
constexpr float kEps = 1e-2f;

class Norms : public ::testing::TestWithParam<nn::NormKind> {
 protected:
  const Tensor* tensor(const Shape& shape, std::vector<float>& values) {
    values = random_values(rng_, shape.n_elements(), 2.0f);
    owned_.emplace_back(runner_.device().buffer_type(), "w", DType::f32, shape, bytes_of(values));
    return &owned_.back().tensor;
  }

  /// x in rows of n, each normed separately.
  std::vector<double> normed(const std::vector<float>& x, int64_t n) const {
    std::vector<double> y(x.begin(), x.end());
    for (size_t row = 0; row < y.size(); row += static_cast<size_t>(n)) {
      double mean = 0, square = 0;
      const auto begin = y.begin() + static_cast<ptrdiff_t>(row), end = begin + n;
      if (GetParam() == nn::NormKind::layer)
        for (auto v = begin; v != end; ++v) mean += *v / static_cast<double>(n);
      for (auto v = begin; v != end; ++v) square += (*v - mean) * (*v - mean) / static_cast<double>(n);
      for (auto v = begin; v != end; ++v) *v = (*v - mean) / std::sqrt(square + double{kEps});
    }
    return y;
  }

  Rng rng_{7};
  GraphRunner runner_{"", 2};
  std::deque<OwnedTensor> owned_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, Norms, ::testing::Values(nn::NormKind::rms, nn::NormKind::layer));

TEST_P(Norms, HaveAWeightABiasOrNeither) {
  const std::vector<float> x = random_values(rng_, kDim * kNormTokens, 3.0f);
  std::vector<float> w, c;
  const Tensor *weight = tensor({kDim}, w), *bias = tensor({kDim}, c);
  for (const bool has_weight : {false, true})
    for (const bool has_bias : {false, true}) {
      const nn::Norm norm{
          .kind = GetParam(), .weight = has_weight ? weight : nullptr, .bias = has_bias ? bias : nullptr, .eps = kEps};
      GraphBuilder b;
      b.output(nn::norm(b, b.input("x", DType::f32, {kDim, kNormTokens}), norm), "y");
      ASSERT_OK_AND_ASSIGN(const auto y, runner_.run_y(std::move(b).finish().value(), {{"x", bytes_of(x)}}));
      std::vector<double> want = normed(x, kDim);
      for (size_t i = 0; i < want.size(); ++i)
        want[i] = want[i] * (has_weight ? double{w[i % kDim]} : 1.0) + (has_bias ? double{c[i % kDim]} : 0.0);
      expect_near(y, want, 1e-5);  // f32 rounding of values of magnitude 1 to 10
    }
}

TEST_P(Norms, OfHeadsAreAsTheWeightsShapeSays) {
  // Heads are a part of wider rows, as in a product that computes q, k and v.
  constexpr int64_t kWide = kDim * kHeads + 5;
  const std::vector<float> wide = random_values(rng_, kWide * kNormTokens, 3.0f);
  std::vector<float> x;
  for (int64_t t = 0; t < kNormTokens; ++t)
    x.insert(x.end(), wide.begin() + t * kWide + 2, wide.begin() + t * kWide + 2 + kDim * kHeads);
  for (const Shape& shape : {Shape{kDim}, Shape{kDim, kHeads}, Shape{kDim * kHeads}}) {
    std::vector<float> w;
    const nn::Norm norm{.kind = GetParam(), .weight = tensor(shape, w), .eps = kEps};
    GraphBuilder b;
    const Value heads =
        b.view(b.input("x", DType::f32, {kWide, kNormTokens}),
               {.shape = {kDim, kHeads, kNormTokens}, .nb = {4, 4 * kDim, 4 * kWide, 4 * kWide * kNormTokens}}, 8);
    b.output(nn::head_norm(b, heads, norm), "y");
    ASSERT_OK_AND_ASSIGN(const auto y, runner_.run_y(std::move(b).finish().value(), {{"x", bytes_of(wide)}}));
    std::vector<double> want = normed(x, shape == Shape{kDim * kHeads} ? kDim * kHeads : kDim);
    for (size_t i = 0; i < want.size(); ++i) want[i] *= double{w[i % w.size()]};
    expect_near(y, want, 1e-5);
  }
}

}  // namespace
}  // namespace tessera
