// The kernels of gradients on every usable instruction set: where they write, and at the ends of the number line. What
// they compute in between: gradient_test.cpp.
#include <algorithm>
#include <cmath>
#include <functional>

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
using testing::usable_kernels;
using testing::vector_kernels;

struct GradientKernel {
  const char* name;
  std::function<void(const Kernels&, const float* x, const float* dy, int64_t n, float* out)> run;
};

const std::vector<GradientKernel>& gradient_kernels() {
  static const float weight[1000] = {1.0f, -0.5f, 3.0f};
  static const std::vector<GradientKernel> kernels = {
      {"silu", [](auto& k, auto x, auto dy, auto n, auto out) { binary(k, Elementwise::silu_grad, x, dy, n, out); }},
      {"gelu", [](auto& k, auto x, auto dy, auto n, auto out) { binary(k, Elementwise::gelu_grad, x, dy, n, out); }},
      {"clamp",
       [](auto& k, auto x, auto dy, auto n, auto out) {
         binary(k, Elementwise::clamp_grad, x, dy, n, out, {-1, 2});
       }},
      {"soft_max", [](auto& k, auto x, auto dy, auto n, auto out) { k.norm->soft_max_grad(x, dy, n, out); }},
      {"rms_norm",
       [](auto& k, auto x, auto dy, auto n, auto out) { k.norm->rms_norm_grad(x, weight, dy, n, 1e-5f, out); }},
      {"layer_norm",
       [](auto& k, auto x, auto dy, auto n, auto out) { k.norm->layer_norm_grad(x, weight, dy, n, 1e-5f, out); }},
      {"l2_norm", [](auto& k, auto x, auto dy, auto n, auto out) { k.norm->l2_norm_grad(x, dy, n, 1e-5f, out); }},
      {"scaled_exp", [](auto& k, auto x, auto, auto n, auto out) { k.loss->scaled_exp(x, 3.0f, 0.25f, n, out); }},
  };
  return kernels;
}
constexpr size_t kFreeElements = 3;  // the first ones, whose elements depend on nothing but themselves

std::vector<float> run_gradient(const GradientKernel& kernel, const Kernels& k, const std::vector<float>& x,
                                const std::vector<float>& dy) {
  Guarded<float> out(static_cast<int64_t>(x.size()));
  kernel.run(k, x.data(), dy.data(), static_cast<int64_t>(x.size()), out.data());
  EXPECT_TRUE(out.intact()) << kernel.name << " on " << k.isa << " with n " << x.size();
  return out.values();
}

TEST(GradientKernels, OutputMayBeEitherInput) {
  Rng rng(2);
  for (const Kernels* k : usable_kernels())
    for (const GradientKernel& kernel : gradient_kernels())
      for (const int64_t n : kTailLengths) {
        std::vector<float> x = random_floats(rng, n, 3), dy = random_floats(rng, n, 3);
        const std::vector<float> apart = run_gradient(kernel, *k, x, dy), kept = x;
        kernel.run(*k, x.data(), dy.data(), n, x.data());
        EXPECT_TRUE(same_bits(x, apart)) << kernel.name << " over x on " << k->isa << " with n " << n;
        kernel.run(*k, kept.data(), dy.data(), n, dy.data());
        EXPECT_TRUE(same_bits(dy, apart)) << kernel.name << " over dy on " << k->isa << " with n " << n;
      }
}

TEST(GradientKernels, BitsDoNotDependOnThePlaceInTheRow) {
  Rng rng(3);
  const std::vector<float> x = random_floats(rng, 70, 9), dy = random_floats(rng, 70, 9);
  for (const Kernels* k : usable_kernels())
    for (size_t i = 0; i < kFreeElements; ++i) {
      const GradientKernel& kernel = gradient_kernels()[i];
      const std::vector<float> whole = run_gradient(kernel, *k, x, dy);
      for (size_t j = 0; j < x.size(); ++j)
        EXPECT_TRUE(same_bits(run_gradient(kernel, *k, {x[j]}, {dy[j]}), {whole[j]}))
            << kernel.name << " on " << k->isa;
    }
}

TEST(GradientKernels, VectorSetsGiveTheSameBits) {
  const auto sets = vector_kernels();
  if (sets.empty()) GTEST_SKIP() << "fewer than two vector instruction sets are usable here";
  Rng rng(4);
  for (const int64_t n : kTailLengths) {
    const std::vector<float> x = random_floats(rng, n, 20), dy = random_floats(rng, n, 20);
    for (const GradientKernel& kernel : gradient_kernels())
      EXPECT_TRUE(same_bits(run_gradient(kernel, *sets[0], x, dy), run_gradient(kernel, *sets[1], x, dy)))
          << kernel.name << " n " << n;
    if (n == 0) continue;
    const cpu::ExpSums a = sets[0]->loss->exp_sums(x.data(), n, n - 1);
    const cpu::ExpSums b = sets[1]->loss->exp_sums(x.data(), n, n - 1);
    EXPECT_EQ(a.others, b.others);
    EXPECT_EQ(a.target, b.target);
  }
}

// The slopes are 0 on the far left and 1 on the far right, and no intermediate overflows into NaN.
TEST(GradientKernels, SlopesSaturateAtTheEnds) {
  const std::vector<float> x{-3e38f, -1e30f, -1e10f, -600, -100, 100, 600, 1e10f, 1e30f, 3e38f}, ones(10, 1.0f);
  for (const Kernels* k : usable_kernels())
    for (const size_t which : {0, 1}) {
      const std::vector<float> slope = run_gradient(gradient_kernels()[which], *k, x, ones);
      for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(slope[i], 0.0f, 1e-30f) << k->isa << " at " << x[i];
      for (size_t i = 5; i < 10; ++i) EXPECT_EQ(slope[i], 1.0f) << k->isa << " at " << x[i];
    }
}

TEST(GradientKernels, NaNStaysNaN) {
  const std::vector<float> nan{std::nanf("")}, one{1.0f};
  for (const Kernels* k : usable_kernels())
    for (const GradientKernel& kernel : gradient_kernels()) {
      if (std::string(kernel.name) == "clamp") continue;
      EXPECT_TRUE(std::isnan(run_gradient(kernel, *k, nan, one)[0])) << kernel.name << " on " << k->isa;
    }
}

TEST(ClampGrad, PassesWhatIsWithinTheBoundsAndOnThem) {
  const std::vector<float> x{-kInf, -2, -1, 0.5f, 2, 2.5f, kInf}, dy(7, 4.0f);
  for (const Kernels* k : usable_kernels())
    EXPECT_EQ(run_gradient(gradient_kernels()[2], *k, x, dy), (std::vector<float>{0, 0, 4, 4, 4, 0, 0}));
}

TEST(ExpSums, LeavesTheTargetOutWhereverItIs) {
  Rng rng(5);
  for (const Kernels* k : usable_kernels())
    for (const int64_t n : {1, 2, 16, 17, 63, 65, 1000, 1024, 1025, 2500}) {
      const std::vector<float> x = random_floats(rng, n, 5);
      const double largest = *std::max_element(x.begin(), x.end());
      for (const int64_t target : {int64_t{0}, n / 2, n - 1}) {
        const cpu::ExpSums sums = k->loss->exp_sums(x.data(), n, target);
        double others = 0;
        for (int64_t i = 0; i < n; ++i)
          if (i != target) others += std::exp(x[static_cast<size_t>(i)] - largest);
        EXPECT_EQ(sums.largest, static_cast<float>(largest));
        EXPECT_NEAR(sums.others, others, 1e-6 * others) << k->isa << " n " << n;  // exp() to 2 ulp, short sums
        EXPECT_NEAR(sums.target, std::exp(x[static_cast<size_t>(target)] - largest), 1e-6) << k->isa << " n " << n;
      }
    }
}

TEST(TransposeKernel, MovesEachElementAndWritesNothingElse) {
  Rng rng(6);
  for (const Kernels* k : usable_kernels())
    for (const int64_t n : {1, 5, 15, 16, 17, 40})
      for (const int64_t n_rows : {1, 3, 16, 19, 33}) {
        const int64_t x_stride = n + 3, out_stride = n_rows + 5;
        const std::vector<float> x = random_floats(rng, n_rows * x_stride, 1);
        Guarded<float> out(n * out_stride);
        std::fill_n(out.data(), n * out_stride, 7.0f);
        k->transpose(x.data(), x_stride, n, n_rows, out.data(), out_stride);
        EXPECT_TRUE(out.intact());
        const std::vector<float> got = out.values();
        for (int64_t i = 0; i < n; ++i)
          for (int64_t row = 0; row < out_stride; ++row)
            ASSERT_EQ(got[static_cast<size_t>(i * out_stride + row)],
                      row < n_rows ? x[static_cast<size_t>(row * x_stride + i)] : 7.0f)
                << k->isa << " " << n << " x " << n_rows;
      }
}

}  // namespace
}  // namespace tessera
