// Feed-forward blocks: with a gate, with a gate in the same product, and without a gate.
#include "tessera/nn/ffn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kFfnWidth = 8, kHidden = 12, kFfnTokens = 5;

class Ffns : public ::testing::Test {
 protected:
  const Tensor* tensor(const Shape& shape, const std::vector<float>& values) {
    owned_.emplace_back(runner_.device().buffer_type(), "w", DType::f32, shape, bytes_of(values));
    return &owned_.back().tensor;
  }
  std::vector<float> run(const nn::Ffn& ffn) {
    GraphBuilder b;
    b.output(nn::ffn(b, b.input("x", DType::f32, {kFfnWidth, kFfnTokens}), ffn), "y");
    const auto y = runner_.run_y(std::move(b).finish().value(), {{"x", bytes_of(x_)}});
    EXPECT_OK(y);
    return y.value_or(std::vector<float>{});
  }
  /// down(hidden(gate x, up x)) in double.
  template <class Hidden>
  std::vector<double> expected(Hidden hidden) const {
    std::vector<double> y;
    for (int64_t t = 0; t < kFfnTokens; ++t) {
      std::vector<double> h;
      for (int64_t i = 0; i < kHidden; ++i) h.push_back(hidden(i, dot(gate_, i, t), dot(up_, i, t)));
      for (int64_t o = 0; o < kFfnWidth; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < kHidden; ++i)
          sum += double{down_[static_cast<size_t>(o * kHidden + i)]} * h[static_cast<size_t>(i)];
        y.push_back(sum);
      }
    }
    return y;
  }
  double dot(const std::vector<float>& w, int64_t row, int64_t t) const {
    double sum = 0;
    for (int64_t i = 0; i < kFfnWidth; ++i)
      sum += double{w[static_cast<size_t>(row * kFfnWidth + i)]} * double{x_[static_cast<size_t>(t * kFfnWidth + i)]};
    return sum;
  }

  Rng rng_{9};
  GraphRunner runner_{"", 2};
  std::deque<OwnedTensor> owned_;
  std::vector<float> x_ = random_values(rng_, kFfnWidth*kFfnTokens), gate_ = random_values(rng_, kFfnWidth*kHidden),
                     up_ = random_values(rng_, kFfnWidth*kHidden), down_ = random_values(rng_, kHidden*kFfnWidth),
                     divisor_ = random_values(rng_, kHidden);
};

constexpr double kTolerance = 1e-5;  // f32 sums of about ten products, twice

double gelu(double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

TEST_F(Ffns, GatedByEachActivation) {
  nn::Ffn ffn{.gate = {.weight = tensor({kFfnWidth, kHidden}, gate_)},
              .up = {.weight = tensor({kFfnWidth, kHidden}, up_)},
              .down = {.weight = tensor({kHidden, kFfnWidth}, down_)}};
  expect_near(run(ffn), expected([](int64_t, double g, double u) { return g / (1 + std::exp(-g)) * u; }), kTolerance);
  ffn.activation = nn::Activation::gelu;
  expect_near(run(ffn), expected([](int64_t, double g, double u) { return gelu(g) * u; }), kTolerance);
  ffn.activation = nn::Activation::relu_squared;
  expect_near(run(ffn), expected([](int64_t, double g, double u) { return std::pow(std::max(g, 0.0), 2) * u; }),
              kTolerance);
  ffn.activation = nn::Activation::swiglu_oai;
  expect_near(run(ffn), expected([](int64_t, double g, double u) { return g / (1 + std::exp(-1.702 * g)) * (u + 1); }),
              kTolerance);  // values stay within the bounds of 7
}

// Most values of the gate, of its activation and of up are beyond the limits.
TEST_F(Ffns, ALimitBoundsTheGateAfterOrBeforeItsActivation) {
  std::vector<float> both = gate_;
  both.insert(both.end(), up_.begin(), up_.end());
  nn::Ffn apart{.gate = {.weight = tensor({kFfnWidth, kHidden}, gate_)},
                .up = {.weight = tensor({kFfnWidth, kHidden}, up_)},
                .down = {.weight = tensor({kHidden, kFfnWidth}, down_)},
                .limit = 0.25f};
  nn::Ffn fused{.up = {.weight = tensor({kFfnWidth, 2 * kHidden}, both)}, .down = apart.down, .limit = 0.25f};
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto bounded = [](double x) { return std::clamp(x, -0.25, 0.25); };
  const auto after = expected([&](int64_t, double g, double u) { return std::min(silu(g), 0.25) * bounded(u); });
  const auto before = expected([&](int64_t, double g, double u) { return silu(std::min(g, 0.25)) * bounded(u); });
  for (nn::Ffn* ffn : {&apart, &fused}) {
    expect_near(run(*ffn), after, kTolerance);
    ffn->limits_gate_input = true;
    expect_near(run(*ffn), before, kTolerance);
  }
}

TEST_F(Ffns, TheGateMayBeTheFirstHalfOfUp) {
  std::vector<float> both = gate_;
  both.insert(both.end(), up_.begin(), up_.end());
  const nn::Ffn fused{.up = {.weight = tensor({kFfnWidth, 2 * kHidden}, both)},
                      .down = {.weight = tensor({kHidden, kFfnWidth}, down_)}};
  const nn::Ffn apart{.gate = {.weight = tensor({kFfnWidth, kHidden}, gate_)},
                      .up = {.weight = tensor({kFfnWidth, kHidden}, up_)},
                      .down = {.weight = tensor({kHidden, kFfnWidth}, down_)}};
  EXPECT_TRUE(same_bytes(run(fused), run(apart)));
}

TEST_F(Ffns, WithoutAGate) {
  for (float& v : divisor_) v += 3;
  nn::Ffn ffn{.up = {.weight = tensor({kFfnWidth, kHidden}, up_)},
              .down = {.weight = tensor({kHidden, kFfnWidth}, down_)},
              .activation = nn::Activation::relu_squared};
  expect_near(run(ffn), expected([](int64_t, double, double u) { return std::pow(std::max(u, 0.0), 2); }), kTolerance);
  ffn.activation = nn::Activation::gelu;
  ffn.divisor = tensor({kHidden}, divisor_);
  expect_near(run(ffn),
              expected([&](int64_t i, double, double u) { return gelu(u) / double{divisor_[static_cast<size_t>(i)]}; }),
              kTolerance);
}

}  // namespace
}  // namespace tessera
