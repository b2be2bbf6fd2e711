// The random numbers of chains: those of std::mt19937 and std::uniform_real_distribution in libstdc++.
#include "tessera/sample/seeded_rng.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::sample {
namespace {

TEST(SeededRng, GivesTheKnownNumbers) {
  // The first outputs of MT19937 for the seed 42 are 1608637542, 3421126067, 4083286876 and 787846414.
  SeededRng doubles(42);
  EXPECT_EQ(doubles.next_double(), 0x1.97d47b66bfc3cp-1);
  EXPECT_EQ(doubles.next_double(), 0x1.77aca8779b102p-3);
  SeededRng floats(42);
  EXPECT_EQ(floats.next_float(), 0x1.7f8772p-2f);
  EXPECT_EQ(floats.next_float(), 0x1.97d47cp-1f);
}

TEST(SeededRng, StaysBelowOneAndUsesTheWholeRange) {
  SeededRng rng(5);
  float least = 1, greatest = 0;
  for (int i = 0; i < 100'000; ++i) {
    const float x = rng.next_float();
    least = std::min(least, x);
    greatest = std::max(greatest, x);
  }
  EXPECT_GE(least, 0.0f);
  EXPECT_LT(least, 0.001f);
  EXPECT_GT(greatest, 0.999f);
  EXPECT_LT(greatest, 1.0f);
}

TEST(SeededRng, OnlyTheLow32BitsOfASeedCount) {
  EXPECT_EQ(SeededRng(7).next_double(), SeededRng((uint64_t{9} << 32) | 7).next_double());
  EXPECT_NE(SeededRng(7).next_double(), SeededRng(8).next_double());
}

}  // namespace
}  // namespace tessera::sample
