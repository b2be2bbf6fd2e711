#include "tessera/base/checked.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tessera {
namespace {

constexpr int64_t kMax = INT64_MAX, kMin = INT64_MIN;

TEST(Checked, AddAtTheEdges) {
  EXPECT_EQ(checked_add<int64_t>(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add<int64_t>(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_add<int64_t>(kMin, -1), std::nullopt);
  EXPECT_EQ(checked_add<uint64_t>(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_add<uint8_t>(200, 56), std::nullopt);
  EXPECT_EQ(checked_add<uint8_t>(200, 55), 255);
}

TEST(Checked, MulAtTheEdges) {
  EXPECT_EQ(checked_mul<uint64_t>(1ull << 32, 1ull << 31), 1ull << 63);
  EXPECT_EQ(checked_mul<uint64_t>(1ull << 32, 1ull << 32), std::nullopt);
  EXPECT_EQ(checked_mul<int64_t>(1ll << 32, 1ll << 31), std::nullopt);
  EXPECT_EQ(checked_mul<int64_t>(kMin, -1), std::nullopt);
  EXPECT_EQ(checked_mul<int64_t>(kMax, 0), 0);
}

TEST(Checked, RoundUpAtTheEdges) {
  EXPECT_EQ(checked_round_up<uint64_t>(0, 32), 0u);
  EXPECT_EQ(checked_round_up<uint64_t>(1, 32), 32u);
  EXPECT_EQ(checked_round_up<uint64_t>(32, 32), 32u);
  EXPECT_EQ(checked_round_up<uint64_t>(UINT64_MAX - 31, 32), UINT64_MAX - 31);
  EXPECT_EQ(checked_round_up<uint64_t>(UINT64_MAX - 30, 32), std::nullopt);
}

TEST(Checked, CastKeepsOnlyWhatFits) {
  EXPECT_EQ((checked_cast<int32_t>(int64_t{INT32_MAX})), INT32_MAX);
  EXPECT_EQ((checked_cast<int32_t>(int64_t{INT32_MAX} + 1)), std::nullopt);
  EXPECT_EQ((checked_cast<uint32_t>(-1)), std::nullopt);
  EXPECT_EQ((checked_cast<int64_t>(UINT64_MAX)), std::nullopt);
}

TEST(Checked, DivCeilNeedsNoHeadroom) {
  EXPECT_EQ(div_ceil<int64_t>(0, 7), 0);
  EXPECT_EQ(div_ceil<int64_t>(7, 7), 1);
  EXPECT_EQ(div_ceil<int64_t>(8, 7), 2);
  EXPECT_EQ(div_ceil<int64_t>(kMax, 2), kMax / 2 + 1);
  EXPECT_EQ(round_up(33, 32), 64);
}

}  // namespace
}  // namespace tessera
