// The error measure for values of two sessions.
#include "tessera/observe/compare_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera::observe {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

double nmse_of(std::vector<float> want, std::vector<float> got) { return nmse(want, got); }

TEST(Nmse, IsTheSquaredErrorOverTheSquares) {
  EXPECT_EQ(nmse_of({1, 2, 2}, {1, 2, 2}), 0);
  EXPECT_DOUBLE_EQ(nmse_of({1, 2, 2}, {1, 0, 3}), 5.0 / 9.0);
  EXPECT_EQ(nmse_of({}, {}), 0);
  EXPECT_EQ(nmse_of({0, 0}, {0, 0}), 0);
}

TEST(Nmse, ValuesThatAreNotFiniteAreTheSameOrInfinitelyFar) {
  EXPECT_EQ(nmse_of({-kInf, 1}, {-kInf, 1}), 0);
  EXPECT_EQ(nmse_of({std::nanf(""), 1}, {std::nanf(""), 1}), 0);
  EXPECT_DOUBLE_EQ(nmse_of({-kInf, 1}, {-kInf, 2}), 1);
  EXPECT_EQ(nmse_of({-kInf, 1}, {0, 1}), HUGE_VAL);
  EXPECT_EQ(nmse_of({1, 1}, {std::nanf(""), 1}), HUGE_VAL);
  EXPECT_EQ(nmse_of({0}, {1}), HUGE_VAL);
}

}  // namespace
}  // namespace tessera::observe
