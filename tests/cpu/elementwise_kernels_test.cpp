// The elementwise kernels of every usable instruction set, against double-precision references.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/cpu/row_kernels_testing.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

using cpu::Elementwise;
using cpu::Kernels;
using testing::binary;
using testing::unary;

constexpr float kNumbers[] = {0.5f, 2.0f, 0.75f, -1e-6f};  // of operations with parameters

const RowKernels& elementwise_kernels() {
  static const RowKernels kernels = {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices)                                                    \
  {#name, [](const Kernels& k, auto a, auto b, auto n, auto out) {                                                    \
     k.elementwise[static_cast<size_t>(Elementwise::name)]({.a = a, .b = b, .params = kNumbers, .n = n, .out = out}); \
   }},
#include "tessera/graph/ops.def"
  };
  return kernels;
}

TEST(ElementwiseKernels, WriteOnlyTheirRowAtEveryLength) { expect_only_the_row_is_written(elementwise_kernels()); }

TEST(ElementwiseKernels, OutputMayBeTheInput) { expect_output_may_be_the_first_input(elementwise_kernels()); }

TEST(ElementwiseKernels, BitsDoNotDependOnThePlaceInTheRow) {
  expect_the_same_bits_at_any_place(elementwise_kernels());
}

TEST(ElementwiseKernels, VectorSetsGiveTheSameBits) { expect_vector_sets_agree(elementwise_kernels()); }

TEST(ElementwiseKernels, AddMulAndScaleRoundOnce) {
  Rng rng(5);
  const std::vector<float> a = random_floats(rng, 100, 1e3f), b = random_floats(rng, 100, 1e-3f);
  for (const Kernels* k : usable_kernels()) {
    std::vector<float> sum(100), product(100), scaled(100);
    binary(*k, Elementwise::add, a.data(), b.data(), 100, sum.data());
    binary(*k, Elementwise::mul, a.data(), b.data(), 100, product.data());
    unary(*k, Elementwise::scale, a.data(), 100, scaled.data(), {0.7f});
    for (size_t i = 0; i < 100; ++i) {
      EXPECT_EQ(sum[i], a[i] + b[i]);
      EXPECT_EQ(product[i], a[i] * b[i]);
      EXPECT_EQ(scaled[i], a[i] * 0.7f);
    }
  }
}

// Computed with the sigmoid, because 1 + tanh cancels in double precision too.
double exact_gelu(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, MatchesDoublePrecision) {
  for (const Kernels* k : usable_kernels()) {
    for (float x = -12.0f; x < 30; x += 0.00371f) {
      float out;
      unary(*k, Elementwise::gelu, &x, 1, &out);
      const double want = exact_gelu(x);
      // The exponent 2 u is rounded to its ulp, which exp turns into a relative error. Below -5 the result is under
      // 1e-6.
      const double exponent = std::abs(x) * (1.6 + 0.0714 * double{x} * x);
      EXPECT_NEAR(out, want, (6 + 2 * exponent) * kUlp * std::abs(want) + 1e-30) << k->isa << " at " << x;
    }
  }
}

TEST(Gelu, SaturatesAtTheEnds) {
  const float x[] = {-kInf, -1e30f, -1e10f, -50.0f, -0.0f, 0.0f, 50.0f, 1e30f, kInf};
  for (const Kernels* k : usable_kernels()) {
    float out[9];
    unary(*k, Elementwise::gelu, x, 9, out);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], 0.0f) << k->isa << " at " << x[i];
    for (int i = 6; i < 9; ++i) EXPECT_EQ(out[i], x[i]) << k->isa;
  }
}

TEST(Sigmoid, MatchesDoublePrecisionAndSaturates) {
  for (const Kernels* k : usable_kernels()) {
    for (float x = -87.0f; x < 100; x += 0.0371f) {
      float out;
      unary(*k, Elementwise::sigmoid, &x, 1, &out);
      const double want = 1 / (1 + std::exp(-double{x}));
      EXPECT_NEAR(out, want, 4 * kUlp * want) << k->isa << " at " << x;  // like silu
    }
    const float ends[] = {-kInf, -1e30f, 0.0f, 1e30f, kInf};
    float out[5];
    unary(*k, Elementwise::sigmoid, ends, 5, out);
    EXPECT_EQ(std::vector<float>(out, out + 5), (std::vector<float>{0, 0, 0.5f, 1, 1}));
  }
}

TEST(ReluSquared, IsZeroBelowZero) {
  const float x[] = {-kInf, -3, -0.0f, 0, 0.5f, 3, 1e30f};
  for (const Kernels* k : usable_kernels()) {
    float out[7];
    unary(*k, Elementwise::relu_squared, x, 7, out);
    EXPECT_EQ(std::vector<float>(out, out + 7), (std::vector<float>{0, 0, 0, 0, 0.25f, 9, kInf}));
  }
}

TEST(SoftCap, MatchesDoublePrecisionAndStaysBelowTheCap) {
  for (const Kernels* k : usable_kernels()) {
    for (float x = -400.0f; x < 400; x += 0.0937f) {
      float out;
      unary(*k, Elementwise::soft_cap, &x, 1, &out, {30.0f});
      // 4 ulp of tanh, and the roundings of the quotient and the product.
      const double want = 30 * std::tanh(double{x} / 30);
      EXPECT_NEAR(out, want, 6 * kUlp * std::abs(want)) << k->isa << " at " << x;
    }
    const float ends[] = {-kInf, -1e30f, 1e-20f, 1e30f, kInf};
    float out[5];
    unary(*k, Elementwise::soft_cap, ends, 5, out, {30.0f});
    EXPECT_EQ(out[0], -30.0f);
    EXPECT_EQ(out[1], -30.0f);
    EXPECT_NEAR(out[2], 1e-20f, 1e-26);
    EXPECT_EQ(out[3], 30.0f);
    EXPECT_EQ(out[4], 30.0f);
  }
}

TEST(Clamp, KeepsWhatIsWithinAndNaN) {
  const float x[] = {-kInf, -2, -1, 0.5f, 1, 2, kInf, std::numeric_limits<float>::quiet_NaN()};
  for (const Kernels* k : usable_kernels()) {
    float out[8];
    unary(*k, Elementwise::clamp, x, 8, out, {-1.0f, 1.0f});
    EXPECT_EQ(std::vector<float>(out, out + 7), (std::vector<float>{-1, -1, -1, 0.5f, 1, 1, 1}));
    EXPECT_TRUE(std::isnan(out[7])) << k->isa;
  }
}

TEST(Xielu, MatchesDoublePrecision) {
  constexpr double kSquare = 0.8125, kExponential = 1.375, kLinear = 0.5, kBound = -0x1p-20;
  for (const Kernels* k : usable_kernels()) {
    for (float x = -40.0f; x < 40; x += 0.00973f) {
      float out;
      unary(*k, Elementwise::xielu, &x, 1, &out, {kSquare, kExponential, kLinear, kBound});
      const double v = x;
      const double want =
          v > 0 ? kSquare * v * v + kLinear * v : kExponential * (std::expm1(std::min(v, kBound)) - v) + kLinear * v;
      // Below 0 the terms are up to three times as large as the sum.
      EXPECT_NEAR(out, want, 8 * kUlp * std::abs(want) + 4 * kUlp * std::abs(v)) << k->isa << " at " << x;
    }
    // Near 0 the linear term remains, plus what the bound leaves of the exponential one.
    const float ends[] = {-kInf, -1e30f, -1e-20f, -0.0f, 1e-20f, kInf};
    float out[6];
    unary(*k, Elementwise::xielu, ends, 6, out, {kSquare, kExponential, kLinear, kBound});
    EXPECT_EQ(out[0], kInf) << k->isa;
    EXPECT_EQ(out[1], 0.875f * 1e30f) << k->isa;
    EXPECT_NEAR(out[2], kExponential * kBound, 1e-12) << k->isa;
    EXPECT_NEAR(out[3], kExponential * kBound, 1e-12) << k->isa;
    EXPECT_NEAR(out[4], 0.5e-20, 1e-26) << k->isa;
    EXPECT_EQ(out[5], kInf) << k->isa;
  }
}

TEST(SwigluOai, BoundsGateAndUp) {
  Rng rng(17);
  const std::vector<float> gate = random_floats(rng, 333, 12), up = random_floats(rng, 333, 12);
  for (const Kernels* k : usable_kernels()) {
    std::vector<float> out(333);
    binary(*k, Elementwise::swiglu_oai, gate.data(), up.data(), 333, out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      const double g = std::min<double>(gate[i], 7), u = std::clamp<double>(up[i], -7, 7);
      const double want = g / (1 + std::exp(-g * double{1.702f})) * (u + 1);
      // Like gelu, with exponents up to 20, plus the rounding of u + 1 relative to 8.
      EXPECT_NEAR(out[i], want, 50 * kUlp * std::abs(want) + 8 * kUlp * std::abs(g)) << k->isa << " at " << i;
    }
  }
}

TEST(Geglu, IsGeluTimesUp) {
  Rng rng(18);
  const std::vector<float> gate = random_floats(rng, 77, 10), up = random_floats(rng, 77, 10);
  for (const Kernels* k : usable_kernels()) {
    std::vector<float> want(77), got(77);
    unary(*k, Elementwise::gelu, gate.data(), 77, want.data());
    binary(*k, Elementwise::mul, want.data(), up.data(), 77, want.data());
    binary(*k, Elementwise::geglu, gate.data(), up.data(), 77, got.data());
    EXPECT_TRUE(same_bits(got, want)) << k->isa;
  }
}

TEST(Silu, MatchesDoublePrecision) {
  for (const Kernels* k : usable_kernels()) {
    for (float x = -87.0f; x < 200; x += 0.0371f) {
      float out;
      unary(*k, Elementwise::silu, &x, 1, &out);
      const double want = x / (1 + std::exp(-double{x}));
      // 2 ulp of exp, one rounding each of the sum and the quotient; exp's argument is exact.
      EXPECT_NEAR(out, want, 4 * kUlp * std::abs(want)) << k->isa << " at " << x;
    }
  }
}

TEST(Silu, SaturatesAtTheEnds) {
  const float x[] = {-1e30f, -100.0f, 0.0f, 100.0f, 1e30f};
  for (const Kernels* k : usable_kernels()) {
    float out[5];
    unary(*k, Elementwise::silu, x, 5, out);
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_EQ(out[1], 0.0f);
    EXPECT_EQ(out[2], 0.0f);
    EXPECT_EQ(out[3], 100.0f);
    EXPECT_EQ(out[4], 1e30f);
  }
}

TEST(Swiglu, IsSiluTimesUp) {
  Rng rng(7);
  const std::vector<float> gate = random_floats(rng, 77, 10), up = random_floats(rng, 77, 10);
  for (const Kernels* k : usable_kernels()) {
    std::vector<float> want(77), got(77);
    unary(*k, Elementwise::silu, gate.data(), 77, want.data());
    binary(*k, Elementwise::mul, want.data(), up.data(), 77, want.data());
    binary(*k, Elementwise::swiglu, gate.data(), up.data(), 77, got.data());
    EXPECT_TRUE(same_bits(got, want)) << k->isa;
  }
}

// --- gradients: only extreme values; gradient_test.cpp checks the others

/// The gradient kernels, as functions of x and dy.
const RowKernels& slope_kernels() {
  static const RowKernels kernels = {
      {"silu", [](auto& k, auto x, auto dy, auto n, auto out) { binary(k, Elementwise::silu_grad, x, dy, n, out); }},
      {"gelu", [](auto& k, auto x, auto dy, auto n, auto out) { binary(k, Elementwise::gelu_grad, x, dy, n, out); }},
      {"clamp",
       [](auto& k, auto x, auto dy, auto n, auto out) {
         binary(k, Elementwise::clamp_grad, x, dy, n, out, {-1, 2});
       }},
  };
  return kernels;
}

TEST(ElementwiseGradientKernels, OutputMayBeEitherInput) { expect_output_may_be_either_input(slope_kernels()); }

TEST(ElementwiseGradientKernels, BitsDoNotDependOnThePlaceInTheRow) {
  expect_the_same_bits_at_any_place(slope_kernels());
}

TEST(ElementwiseGradientKernels, VectorSetsGiveTheSameBits) { expect_vector_sets_agree(slope_kernels()); }

// The slopes are 0 on the far left and 1 on the far right, and no intermediate overflows into NaN.
TEST(ElementwiseGradientKernels, SlopesSaturateAtTheEnds) {
  const std::vector<float> x{-3e38f, -1e30f, -1e10f, -600, -100, 100, 600, 1e10f, 1e30f, 3e38f}, ones(10, 1.0f);
  for (const Kernels* k : usable_kernels())
    for (const size_t which : {0, 1}) {
      const std::vector<float> slope = run_row(slope_kernels()[which], *k, x, ones);
      for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(slope[i], 0.0f, 1e-30f) << k->isa << " at " << x[i];
      for (size_t i = 5; i < 10; ++i) EXPECT_EQ(slope[i], 1.0f) << k->isa << " at " << x[i];
    }
}

// All gradients except clamp's, which is 0 out of the bounds.
TEST(ElementwiseGradientKernels, NaNStaysNaN) { expect_nan_stays_nan({slope_kernels()[0], slope_kernels()[1]}); }

TEST(ClampGrad, PassesWhatIsWithinTheBoundsAndOnThem) {
  const std::vector<float> x{-kInf, -2, -1, 0.5f, 2, 2.5f, kInf}, dy(7, 4.0f);
  for (const Kernels* k : usable_kernels())
    EXPECT_EQ(run_row(slope_kernels()[2], *k, x, dy), (std::vector<float>{0, 0, 4, 4, 4, 0, 0}));
}

}  // namespace
}  // namespace tessera
