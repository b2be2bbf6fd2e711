// The lanes and half-precision numbers of the scalar set against plain code. tests/cpu compares the sets with each
// other through the kernels.
#define TESSERA_ISA_NAMESPACE scalar
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "tessera/base/half.h"
#include "tessera/isa/half.h"
#include "tessera/isa/simd.h"

namespace tessera {
namespace {

namespace words = isa::scalar;

uint32_t bits(float f) { return std::bit_cast<uint32_t>(f); }

TEST(IsaHalf, DecodesEveryNumberAsBaseDoes) {
  for (uint32_t h = 0; h < 1u << 16; ++h) {
    const auto half = static_cast<uint16_t>(h);
    ASSERT_EQ(bits(words::f16_to_f32(half)), bits(f16_to_f32(half))) << h;
    ASSERT_EQ(bits(words::bf16_to_f32(half)), bits(bf16_to_f32(half))) << h;
  }
}

TEST(IsaHalf, EncodesAsBaseDoes) {
  std::mt19937 random(1);
  for (int i = 0; i < 1 << 20; ++i) {
    const auto f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_EQ(words::f32_to_f16(f), f32_to_f16(f)) << bits(f);
    ASSERT_EQ(words::f32_to_bf16(f), f32_to_bf16(f)) << bits(f);
  }
}

words::F32x16 ramp() {
  float values[16];
  for (int i = 0; i < 16; ++i) values[i] = static_cast<float>(i);
  return words::F32x16::load(values);
}

TEST(IsaLanes, PartialLoadsFillWithZeros) {
  const float values[3] = {1, 2, 3};
  float out[16];
  words::F32x16::load_partial(values, 3).store(out);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(out[i], i < 3 ? values[i] : 0.0f) << i;
}

TEST(IsaLanes, ReductionsSeeEveryLane) {
  EXPECT_EQ(words::reduce_add(ramp()), 120.0f);
  EXPECT_EQ(words::reduce_max(ramp()), 15.0f);
}

TEST(IsaLanes, PairsAreTwoIntegersOfSixteenBits) {
  const auto lane = [](words::I32x16 x) {
    int32_t out[16];
    x.store(out);
    for (const int32_t other : out) EXPECT_EQ(other, out[0]);
    return static_cast<uint32_t>(out[0]);
  };
  const auto of = [](uint32_t x) { return words::I32x16::broadcast(static_cast<int32_t>(x)); };
  EXPECT_EQ(lane(low_halves(of(0x12345678), of(0x9abcdef0))), 0xdef05678);
  EXPECT_EQ(lane(max_halves(of(0x0001ffff), of(0xffff0002))), 0x00010002u);
  EXPECT_EQ(lane(max_halves(of(0x80007fff), of(0x7fff8000))), 0x7fff7fffu);
  EXPECT_EQ(lane(bit_and(of(0x12345678), of(0xff00ff0f))), 0x12005608u);
  EXPECT_EQ(lane(max(of(0xffffffff), of(3))), 3u);
  EXPECT_EQ(lane(add_pairs(of(10), of(0x0003fffe), of(0xffff0005))), static_cast<uint32_t>(10 - 2 * 5 - 3));
  EXPECT_EQ(lane(add_pairs(of(0), of(0x80008000), of(0x80008000))), 0x80000000u) << "a sum that wraps";
  EXPECT_EQ(lane(as_bits(as_floats(of(0x3f800001)))), 0x3f800001u);
}

TEST(IsaLanes, TransposeExchangesRowsAndColumns) {
  words::F32x16 rows[16];
  for (int r = 0; r < 16; ++r) rows[r] = add(ramp(), words::F32x16::broadcast(16.0f * static_cast<float>(r)));
  words::transpose(rows);
  for (int r = 0; r < 16; ++r) {
    float out[16];
    rows[r].store(out);
    for (int c = 0; c < 16; ++c) EXPECT_EQ(out[c], static_cast<float>(16 * c + r)) << r << " " << c;
  }
}

}  // namespace
}  // namespace tessera
