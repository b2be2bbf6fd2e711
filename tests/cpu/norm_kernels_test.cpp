// The row kernels (norms, softmax, sums) of every usable instruction set, against double-precision references.
#include <algorithm>
#include <cmath>

#include "tests/cpu/row_kernels_testing.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

using cpu::Kernels;

const RowKernels& norm_kernels() {
  static const RowKernels kernels = {
      {"softmax", [](const Kernels& k, auto a, auto, auto n, auto out) { k.norm->soft_max(a, n, out); }},
      {"rms_norm", [](const Kernels& k, auto a, auto b, auto n, auto out) { k.norm->rms_norm(a, b, n, 1e-5f, out); }},
      {"rms_norm without weight",
       [](const Kernels& k, auto a, auto, auto n, auto out) { k.norm->rms_norm(a, nullptr, n, 1e-5f, out); }},
      {"layer_norm",
       [](const Kernels& k, auto a, auto b, auto n, auto out) { k.norm->layer_norm(a, b, b, n, 1e-5f, out); }},
      {"layer_norm without weights", [](const Kernels& k, auto a, auto, auto n,
                                        auto out) { k.norm->layer_norm(a, nullptr, nullptr, n, 1e-5f, out); }},
  };
  return kernels;
}

TEST(NormKernels, WriteOnlyTheirRowAtEveryLength) { expect_only_the_row_is_written(norm_kernels()); }

TEST(NormKernels, OutputMayBeTheInput) { expect_output_may_be_the_first_input(norm_kernels()); }

TEST(NormKernels, VectorSetsGiveTheSameBits) { expect_vector_sets_agree(norm_kernels()); }

TEST(RmsNorm, HandCase) {
  const float x[] = {1, -7}, weight[] = {2, 10};  // mean of squares 25
  for (const Kernels* k : usable_kernels()) {
    float out[2];
    k->norm->rms_norm(x, weight, 2, 0, out);
    EXPECT_FLOAT_EQ(out[0], 0.4f);
    EXPECT_FLOAT_EQ(out[1], -14.0f);
    k->norm->rms_norm(x, nullptr, 2, 75, out);  // 25 + 75
    EXPECT_FLOAT_EQ(out[0], 0.1f);
    EXPECT_FLOAT_EQ(out[1], -0.7f);
  }
}

TEST(RmsNorm, MatchesDoublePrecision) {
  Rng rng(6);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n : kTailLengths) {
      const std::vector<float> x = random_floats(rng, n, 5), weight = random_floats(rng, n, 2);
      std::vector<float> out(x.size());
      k->norm->rms_norm(x.data(), weight.data(), n, 1e-5f, out.data());
      double squares = 0;
      for (const float v : x) squares += double{v} * v;
      const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
      // Half the relative error of the sum (64 partials of n/64 terms, a tree of 6) and 5 roundings after it.
      const double tolerance = (static_cast<double>(n) / 64 + 6) / 2 + 5;
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = x[i] * factor * weight[i];
        EXPECT_NEAR(out[i], want, tolerance * kUlp * std::abs(want)) << k->isa << " n " << n;
      }
    }
  }
}

TEST(RmsNorm, ZeroRowStaysZero) {
  const std::vector<float> zeros(20, 0.0f);
  for (const Kernels* k : usable_kernels()) {
    std::vector<float> out(20, 1.0f);
    k->norm->rms_norm(zeros.data(), nullptr, 20, 1e-6f, out.data());
    EXPECT_EQ(out, zeros);
  }
}

TEST(LayerNorm, HandCase) {
  const float x[] = {1, 3, 5, 7}, weight[] = {1, 2, 1, 2}, bias[] = {0, 0, 10, 10};  // mean 4, variance 5
  for (const Kernels* k : usable_kernels()) {
    float out[4];
    k->norm->layer_norm(x, weight, bias, 4, 4, out);  // 5 + 4: divided by 3
    EXPECT_FLOAT_EQ(out[0], -1.0f);
    EXPECT_FLOAT_EQ(out[1], -2.0f / 3);
    EXPECT_FLOAT_EQ(out[2], 10 + 1.0f / 3);
    EXPECT_FLOAT_EQ(out[3], 12.0f);
  }
}

// The mean is much larger than the spread, so that subtracting the square of the mean would lose precision.
TEST(LayerNorm, MatchesDoublePrecisionFarFromZero) {
  Rng rng(16);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n : kTailLengths) {
      if (n < 2) continue;
      std::vector<float> x = random_floats(rng, n, 5);
      for (float& v : x) v += 1000;
      const std::vector<float> weight = random_floats(rng, n, 2), bias = random_floats(rng, n, 2);
      std::vector<float> out(x.size());
      k->norm->layer_norm(x.data(), weight.data(), bias.data(), n, 1e-5f, out.data());
      double mean = 0, variance = 0;
      for (const float v : x) mean += double{v} / static_cast<double>(n);
      for (const float v : x) variance += (v - mean) * (v - mean) / static_cast<double>(n);
      const double factor = 1 / std::sqrt(variance + 1e-5);
      for (size_t i = 0; i < x.size(); ++i) {
        // The error of the mean is some roundings of 1000, growing with the number of partial sums. Differences are
        // small.
        const double mean_error = (static_cast<double>(n) / 64 + 8) * 1000 * kUlp / 2;
        EXPECT_NEAR(out[i], (x[i] - mean) * factor * weight[i] + bias[i], 3 * mean_error * factor * 2 + 1e-5)
            << k->isa << " n " << n;
      }
    }
  }
}

TEST(LayerNorm, AConstantRowGivesTheBias) {
  const std::vector<float> x(70, 3.0f), bias(70, 0.25f);
  for (const Kernels* k : usable_kernels()) {
    std::vector<float> out(70);
    k->norm->layer_norm(x.data(), nullptr, bias.data(), 70, 1e-5f, out.data());
    EXPECT_EQ(out, bias);
  }
}

TEST(Softmax, MatchesDoublePrecision) {
  Rng rng(8);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n : kTailLengths) {
      const std::vector<float> x = random_floats(rng, n, 15);
      std::vector<float> out(x.size());
      k->norm->soft_max(x.data(), n, out.data());
      if (n == 0) continue;
      const double highest = *std::max_element(x.begin(), x.end());
      double sum = 0;
      for (const float v : x) sum += std::exp(v - highest);
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = std::exp(x[i] - highest) / sum;
        // Errors: x - max up to 2^-24 of 30; exp 2 ulp, likewise in the sum; n/16 + 4 additions; the quotient.
        const double tolerance = 2 * (15 + 2) + static_cast<double>(n) / 16 + 5;
        EXPECT_NEAR(out[i], want, tolerance * kUlp * want) << k->isa << " n " << n;
      }
    }
  }
}

TEST(Softmax, MinusInfinityGetsNothing) {
  const float x[] = {0, -kInf, 0, -kInf};
  for (const Kernels* k : usable_kernels()) {
    float out[4];
    k->norm->soft_max(x, 4, out);
    EXPECT_EQ(out[0], 0.5f);
    EXPECT_EQ(out[1], 0.0f);
    EXPECT_EQ(out[2], 0.5f);
    EXPECT_EQ(out[3], 0.0f);
  }
}

TEST(Softmax, AllMinusInfinityGivesZeros) {
  const std::vector<float> x(19, -kInf);
  for (const Kernels* k : usable_kernels()) {
    std::vector<float> out(19, 1.0f);
    k->norm->soft_max(x.data(), 19, out.data());
    EXPECT_EQ(out, std::vector<float>(19, 0.0f));
  }
}

TEST(Softmax, HugeLogitsDoNotOverflow) {
  const float x[] = {1e30f, 1e30f, -1e30f};
  for (const Kernels* k : usable_kernels()) {
    float out[3];
    k->norm->soft_max(x, 3, out);
    EXPECT_EQ(out[0], 0.5f);
    EXPECT_EQ(out[1], 0.5f);
    EXPECT_EQ(out[2], 0.0f);
  }
}

// --- gradients; gradient_test.cpp checks their values

/// The gradient kernels, as functions of x and dy.
const RowKernels& norm_gradient_kernels() {
  static const float weight[1000] = {1.0f, -0.5f, 3.0f};
  static const RowKernels kernels = {
      {"soft_max", [](auto& k, auto x, auto dy, auto n, auto out) { k.norm->soft_max_grad(x, dy, n, out); }},
      {"rms_norm",
       [](auto& k, auto x, auto dy, auto n, auto out) { k.norm->rms_norm_grad(x, weight, dy, n, 1e-5f, out); }},
      {"layer_norm",
       [](auto& k, auto x, auto dy, auto n, auto out) { k.norm->layer_norm_grad(x, weight, dy, n, 1e-5f, out); }},
      {"l2_norm", [](auto& k, auto x, auto dy, auto n, auto out) { k.norm->l2_norm_grad(x, dy, n, 1e-5f, out); }},
  };
  return kernels;
}

TEST(NormGradientKernels, OutputMayBeEitherInput) { expect_output_may_be_either_input(norm_gradient_kernels()); }

TEST(NormGradientKernels, VectorSetsGiveTheSameBits) { expect_vector_sets_agree(norm_gradient_kernels()); }

TEST(NormGradientKernels, NaNStaysNaN) { expect_nan_stays_nan(norm_gradient_kernels()); }

}  // namespace
}  // namespace tessera
