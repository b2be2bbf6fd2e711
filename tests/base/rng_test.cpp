#include "tessera/base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace tessera {
namespace {

TEST(Rng, GivesTheKnownSequence) {
  // pcg32_srandom(42, 721347520444481703) of the paper's definition, computed independently with Python
  // integers.
  Rng rng(42);
  for (const uint32_t expected : {0xc2f57bd6u, 0x6b07c4a9u, 0x72b7b29bu, 0x44215383u, 0xf5af5eadu, 0x68beb632u})
    EXPECT_EQ(rng.next_u32(), expected);
}

TEST(Rng, SeedsGiveDifferentSequences) {
  Rng a(1), b(2);
  int n_equal = 0;
  for (int i = 0; i < 100; ++i) n_equal += a.next_u32() == b.next_u32() ? 1 : 0;
  EXPECT_LE(n_equal, 1);
}

TEST(Rng, DoublesAreUniform) {
  constexpr int kBins = 64, kDraws = 640000;
  std::array<int, kBins> bins{};
  Rng rng(3);
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.next_double();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    ++bins[static_cast<size_t>(x * kBins)];
  }
  double chi2 = 0;
  for (const int n : bins) chi2 += (n - kDraws / kBins) * (n - kDraws / kBins) / static_cast<double>(kDraws / kBins);
  // 63 degrees of freedom: mean 63, deviation 11; five deviations either way (the seed is fixed).
  EXPECT_NEAR(chi2, 63, 56);
}

TEST(Rng, EveryBitIsSetHalfTheTime) {
  Rng rng(4);
  std::array<int, 32> n_set{};
  for (int i = 0; i < 10000; ++i) {
    const uint32_t bits = rng.next_u32();
    for (size_t b = 0; b < 32; ++b) n_set[b] += static_cast<int>(bits >> b & 1);
  }
  for (const int n : n_set) EXPECT_NEAR(n, 5000, 250);  // deviation 50: five of them
}

TEST(Rng, FloatsStayInTheirRange) {
  Rng rng(5);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float x = rng.next_float(-3.0f, 5.0f);
    ASSERT_GE(x, -3.0f);
    ASSERT_LE(x, 5.0f);
    sum += x;
  }
  EXPECT_NEAR(sum / 10000, 1.0, 0.12);  // deviation of the mean: 8 / sqrt(12 * 10000) = 0.023
}

}  // namespace
}  // namespace tessera
