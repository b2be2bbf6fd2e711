// The element-wise kernels of every usable instruction set against double-precision references.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "tests/cpu/kernels_testing.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using cpu::Elementwise;
using cpu::Kernels;
using testing::binary;
using testing::Guarded;
using testing::kInf;
using testing::kTailLengths;
using testing::random_floats;
using testing::same_bits;
using testing::unary;
using testing::usable_kernels;
using testing::vector_kernels;

constexpr double kUlp = 0x1p-23;

/// One kernel over two input rows, e.g. add; those with one input ignore the second.
struct RowKernel {
  const char* name;
  std::function<void(const Kernels&, const float* a, const float* b, int64_t n, float* out)> run;
};

constexpr float kNumbers[] = {0.5f, 2.0f};  // of operations with parameters

// The element-wise operations first: element i of their result depends on nothing but element i of the inputs.
const std::vector<RowKernel>& row_kernels() {
  static const std::vector<RowKernel> kernels = {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices)                                                    \
  {#name, [](const Kernels& k, auto a, auto b, auto n, auto out) {                                                    \
     k.elementwise[static_cast<size_t>(Elementwise::name)]({.a = a, .b = b, .params = kNumbers, .n = n, .out = out}); \
   }},
#include "tessera/graph/ops.def"
      {"softmax", [](const Kernels& k, auto a, auto, auto n, auto out) { k.norm->soft_max(a, n, out); }},
      {"rms_norm", [](const Kernels& k, auto a, auto b, auto n, auto out) { k.norm->rms_norm(a, b, n, 1e-5f, out); }},
      {"rms_norm without weight",
       [](const Kernels& k, auto a, auto, auto n, auto out) { k.norm->rms_norm(a, nullptr, n, 1e-5f, out); }},
      {"layer_norm",
       [](const Kernels& k, auto a, auto b, auto n, auto out) { k.norm->layer_norm(a, b, b, n, 1e-5f, out); }},
      {"layer_norm without weights", [](const Kernels& k, auto a, auto, auto n,
                                        auto out) { k.norm->layer_norm(a, nullptr, nullptr, n, 1e-5f, out); }},
      {"rope_adjacent",
       [](const Kernels& k, auto a, auto b, auto n, auto out) { k.rope_adjacent(a, b, n / 2 * 2, n, out); }},
      {"rope_halves",
       [](const Kernels& k, auto a, auto b, auto n, auto out) { k.rope_halves(a, b, n / 2 * 2, n, out); }},
  };
  return kernels;
}

constexpr size_t kElementwise = std::to_array<const char*>({
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) #name,
#include "tessera/graph/ops.def"
                                                           })
                                    .size();

std::vector<RowKernel> independent_kernels() { return {row_kernels().begin(), row_kernels().begin() + kElementwise}; }

std::vector<float> run(const RowKernel& kernel, const Kernels& k, const std::vector<float>& a,
                       const std::vector<float>& b) {
  Guarded<float> out(static_cast<int64_t>(a.size()));
  kernel.run(k, a.data(), b.data(), static_cast<int64_t>(a.size()), out.data());
  EXPECT_TRUE(out.intact()) << kernel.name << " on " << k.isa << " with n " << a.size();
  return out.values();
}

TEST(ElementwiseKernels, WriteOnlyTheirRowAtEveryLength) {
  Rng rng(1);
  for (const Kernels* k : usable_kernels()) {
    for (const RowKernel& kernel : row_kernels()) {
      for (const int64_t n : kTailLengths) run(kernel, *k, random_floats(rng, n, 3), random_floats(rng, n, 3));
    }
  }
}

TEST(ElementwiseKernels, OutputMayBeTheInput) {
  Rng rng(2);
  for (const Kernels* k : usable_kernels()) {
    for (const RowKernel& kernel : row_kernels()) {
      for (const int64_t n : kTailLengths) {
        std::vector<float> a = random_floats(rng, n, 3);
        const std::vector<float> b = random_floats(rng, n, 3), apart = run(kernel, *k, a, b);
        kernel.run(*k, a.data(), b.data(), n, a.data());
        EXPECT_TRUE(same_bits(a, apart)) << kernel.name << " on " << k->isa << " with n " << n;
      }
    }
  }
}

TEST(ElementwiseKernels, BitsDoNotDependOnThePlaceInTheRow) {
  Rng rng(3);
  const std::vector<float> a = random_floats(rng, 70, 9), b = random_floats(rng, 70, 9);
  for (const Kernels* k : usable_kernels()) {
    for (const RowKernel& kernel : independent_kernels()) {
      const std::vector<float> whole = run(kernel, *k, a, b);
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_TRUE(same_bits(run(kernel, *k, {a[i]}, {b[i]}), {whole[i]})) << kernel.name << " on " << k->isa;
      }
    }
  }
}

TEST(ElementwiseKernels, VectorSetsGiveTheSameBits) {
  const auto sets = vector_kernels();
  if (sets.empty()) GTEST_SKIP() << "fewer than two vector instruction sets are usable here";
  Rng rng(4);
  for (const RowKernel& kernel : row_kernels()) {
    for (const int64_t n : kTailLengths) {
      const std::vector<float> a = random_floats(rng, n, 20), b = random_floats(rng, n, 20);
      EXPECT_TRUE(same_bits(run(kernel, *sets[0], a, b), run(kernel, *sets[1], a, b))) << kernel.name << " n " << n;
    }
  }
}

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

// The mean is far from 0 beside the spread: what subtracting the square of the mean would lose.
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
        // The mean is off by some roundings of 1000, more for more partial sums; differences are of some units.
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

// By the sigmoid: 1 + tanh would cancel in double too.
double exact_gelu(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, MatchesDoublePrecision) {
  for (const Kernels* k : usable_kernels()) {
    for (float x = -12.0f; x < 30; x += 0.00371f) {
      float out;
      unary(*k, Elementwise::gelu, &x, 1, &out);
      const double want = exact_gelu(x);
      // The exponent 2 u is rounded to its ulp, of which e makes a relative error; below -5 the result is under 1e-6.
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
      EXPECT_NEAR(out, want, 4 * kUlp * want) << k->isa << " at " << x;  // as silu
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

TEST(SwigluOai, BoundsGateAndUp) {
  Rng rng(17);
  const std::vector<float> gate = random_floats(rng, 333, 12), up = random_floats(rng, 333, 12);
  for (const Kernels* k : usable_kernels()) {
    std::vector<float> out(333);
    binary(*k, Elementwise::swiglu_oai, gate.data(), up.data(), 333, out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      const double g = std::min<double>(gate[i], 7), u = std::clamp<double>(up[i], -7, 7);
      const double want = g / (1 + std::exp(-g * double{1.702f})) * (u + 1);
      // As gelu, with exponents to 20, and the rounding of u + 1 beside 8.
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
        // x - max is off by up to 2^-24 of 30; exp by 2 ulp, likewise the sum; n/16 + 4 additions; the
        // quotient.
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

/// Rope's partner of element i and the pair's number, by the definitions of the two layouts.
struct RopePair {
  int64_t first, second;
};

std::vector<float> rope_reference(const std::vector<float>& x, const std::vector<float>& cos_sin, int64_t n_rot,
                                  const std::function<RopePair(int64_t)>& pair_of) {
  std::vector<float> out = x;
  for (int64_t i = 0; i < n_rot / 2; ++i) {
    const auto [first, second] = pair_of(i);
    const float a = x[static_cast<size_t>(first)], b = x[static_cast<size_t>(second)];
    const float c = cos_sin[static_cast<size_t>(2 * i)], s = cos_sin[static_cast<size_t>(2 * i + 1)];
    out[static_cast<size_t>(first)] = a * c - b * s;
    out[static_cast<size_t>(second)] = a * s + b * c;
  }
  return out;
}

TEST(Rope, AdjacentRotatesNeighboursAndCopiesTheRest) {
  Rng rng(9);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n_rot : {0, 2, 6, 32, 34, 64, 128}) {
      const std::vector<float> x = random_floats(rng, n_rot + 5, 2), cos_sin = random_floats(rng, n_rot, 1);
      std::vector<float> out(x.size());
      k->rope_adjacent(x.data(), cos_sin.data(), n_rot, n_rot + 5, out.data());
      EXPECT_EQ(out, rope_reference(x, cos_sin, n_rot,
                                    [](int64_t i) {
                                      return RopePair{2 * i, 2 * i + 1};
                                    }))
          << k->isa << " n_rot " << n_rot;
    }
  }
}

TEST(Rope, HalvesRotatesAcrossTheHalvesAndCopiesTheRest) {
  Rng rng(10);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n_rot : {0, 2, 6, 32, 34, 64, 128}) {
      const std::vector<float> x = random_floats(rng, n_rot + 5, 2), cos_sin = random_floats(rng, n_rot, 1);
      std::vector<float> out(x.size());
      k->rope_halves(x.data(), cos_sin.data(), n_rot, n_rot + 5, out.data());
      EXPECT_EQ(out, rope_reference(x, cos_sin, n_rot,
                                    [=](int64_t i) {
                                      return RopePair{i, i + n_rot / 2};
                                    }))
          << k->isa << " n_rot " << n_rot;
    }
  }
}

}  // namespace
}  // namespace tessera
