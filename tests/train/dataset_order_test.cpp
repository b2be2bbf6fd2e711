// The permutation that orders the windows of an epoch: complete, dependent on its key, stable, uniform.
#include "tessera/train/dataset_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::train {
namespace {

std::vector<uint64_t> order(uint64_t n, uint64_t key) {
  const Permutation permutation(n, key);
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < n; ++i) all.push_back(permutation(i));
  return all;
}

TEST(Permutation, EveryNumberComesOnce) {
  for (const uint64_t n : {1, 2, 3, 7, 255, 256, 257, 1000, 4096, 100003})
    for (const uint64_t key : {0, 1, 77}) {
      std::vector<bool> seen(n);
      for (const uint64_t i : order(n, key)) {
        ASSERT_LT(i, n);
        ASSERT_FALSE(seen[i]) << n << " " << key << " " << i;
        seen[i] = true;
      }
    }
}

TEST(Permutation, KeysGiveOtherOrders) {
  EXPECT_EQ(order(1000, 5), order(1000, 5));
  EXPECT_NE(order(1000, 5), order(1000, 6));
  EXPECT_NE(order(1000, 0), order(1000, uint64_t{1} << 40));
}

TEST(Permutation, TheOrderIsThatOfThisTable) {
  // A resumed run must continue with the same order, so these numbers must never change.
  EXPECT_EQ(order(8, 1), (std::vector<uint64_t>{0, 5, 6, 7, 4, 2, 1, 3}));
}

TEST(Permutation, EveryPlaceIsAsLikelyAsAnyOther) {
  constexpr uint64_t kN = 10;
  constexpr int kKeys = 20000;
  std::vector<std::vector<int>> counts(kN, std::vector<int>(kN));
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Permutation permutation(kN, key);
    for (uint64_t i = 0; i < kN; ++i) ++counts[i][permutation(i)];
  }
  // Each of 100 cells has an expected count of 2000 with a standard deviation of 42. The bound is five deviations, 212.
  for (const auto& row : counts)
    for (const int count : row) EXPECT_NEAR(count, 2000, 212);
}

TEST(Permutation, LargeSetsNeedNoTable) {
  const uint64_t n = (uint64_t{1} << 40) + 12345;
  const Permutation permutation(n, 3);
  uint64_t low = 0;
  for (uint64_t i = 0; i < 1000; ++i) low += permutation(i) < n / 2 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(low), 500, 80);  // five standard deviations of a fair coin
}

}  // namespace
}  // namespace tessera::train
