// The kernels of cross-entropy and its gradient on every usable instruction set.
#include <algorithm>
#include <cmath>

#include "tests/cpu/row_kernels_testing.h"

namespace tessera {
namespace {

using namespace testing;

using cpu::Kernels;

const RowKernels& loss_kernels() {
  static const RowKernels kernels = {
      {"scaled_exp", [](auto& k, auto x, auto, auto n, auto out) { k.loss->scaled_exp(x, 3.0f, 0.25f, n, out); }},
  };
  return kernels;
}

TEST(LossKernels, OutputMayBeEitherInput) { expect_output_may_be_either_input(loss_kernels()); }

TEST(LossKernels, VectorSetsGiveTheSameBits) { expect_vector_sets_agree(loss_kernels()); }

TEST(LossKernels, NaNStaysNaN) { expect_nan_stays_nan(loss_kernels()); }

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

TEST(ExpSums, AreTheSameOnVectorSets) {
  const auto sets = vector_kernels();
  if (sets.empty()) GTEST_SKIP() << "fewer than two vector instruction sets are usable here";
  Rng rng(4);
  for (const int64_t n : kTailLengths) {
    if (n == 0) continue;
    const std::vector<float> x = random_floats(rng, n, 20);
    const cpu::ExpSums a = sets[0]->loss->exp_sums(x.data(), n, n - 1);
    const cpu::ExpSums b = sets[1]->loss->exp_sums(x.data(), n, n - 1);
    EXPECT_EQ(a.others, b.others);
    EXPECT_EQ(a.target, b.target);
  }
}

}  // namespace
}  // namespace tessera
