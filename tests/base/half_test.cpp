#include "tessera/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tessera/base/cpu_info.h"
#include "tessera/base/rng.h"

namespace tessera {
namespace {

constexpr uint32_t kAllBits16 = 1u << 16;

bool is_nan16(uint32_t bits, uint32_t infinity) { return (bits & 0x7fff) > infinity; }

// The value of a half by its definition, in double.
double f16_value(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// The nearest half of a finite float, by search over all finite halves: slow but simple. Magnitudes of halves are in
// ascending order of their bits. 0x7c00 represents 2^16 here, where rounding to infinity begins.
uint16_t nearest_f16(float f) {
  const double x = std::fabs(static_cast<double>(f));
  uint32_t low = 0, high = 0x7c00;
  const auto value = [](uint32_t bits) { return bits == 0x7c00 ? 65536.0 : f16_value(bits); };
  if (x >= 65536.0) low = high;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (value(middle) <= x ? low : high) = middle;
  }
  const double below = x - value(low), above = value(high) - x;
  const bool up = below > above || (below == above && low % 2 == 1);
  return static_cast<uint16_t>((std::signbit(f) ? 0x8000u : 0u) | (up ? high : low));
}

// Floats at, just below and just above every half and every midpoint of two halves, and random bits.
std::vector<float> interesting_floats() {
  std::vector<float> floats;
  const auto add_neighbourhood = [&](float f) {
    for (const float x : {f, std::nextafter(f, INFINITY), std::nextafter(f, -INFINITY)}) {
      floats.push_back(x);
      floats.push_back(-x);
    }
  };
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double next = bits + 1 == 0x7c00 ? 65536.0 : f16_value(bits + 1);
    add_neighbourhood(static_cast<float>(f16_value(bits)));
    add_neighbourhood(static_cast<float>((f16_value(bits) + next) / 2));
  }
  Rng rng(1);
  for (int i = 0; i < 200000; ++i) floats.push_back(std::bit_cast<float>(rng.next_u32()));
  for (const uint32_t bits : {1u, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7f800001u,
                              0x7fc00000u, 0xffffffffu, 0x7fa00000u, 0xff802000u})
    floats.push_back(std::bit_cast<float>(bits));
  return floats;
}

TEST(Half, EveryFiniteHalfHasItsDefinedValue) {
  for (uint32_t bits = 0; bits < kAllBits16; ++bits) {
    if ((bits & 0x7c00) == 0x7c00) continue;
    ASSERT_EQ(static_cast<double>(f16_to_f32(static_cast<uint16_t>(bits))), f16_value(bits)) << bits;
  }
  EXPECT_TRUE(std::signbit(f16_to_f32(0x8000)));
  EXPECT_EQ(f16_to_f32(0x7c00), INFINITY);
  EXPECT_EQ(f16_to_f32(0xfc00), -INFINITY);
}

TEST(Half, EveryHalfRoundTrips) {
  for (uint32_t bits = 0; bits < kAllBits16; ++bits) {
    const uint32_t quiet = is_nan16(bits, 0x7c00) ? 0x200u : 0u;
    ASSERT_EQ(f32_to_f16(f16_to_f32(static_cast<uint16_t>(bits))), bits | quiet);
  }
}

TEST(Half, RoundsToTheNearestHalf) {
  for (const float f : interesting_floats()) {
    if (!std::isfinite(f)) continue;
    ASSERT_EQ(f32_to_f16(f), nearest_f16(f)) << std::bit_cast<uint32_t>(f);
  }
}

TEST(Half, OverflowBeginsAtTheMidpoint) {
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
}

TEST(Half, NanStaysNan) {
  for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xffffffffu}) {
    const auto f = std::bit_cast<float>(bits);
    EXPECT_TRUE(is_nan16(f32_to_f16(f), 0x7c00)) << bits;
    EXPECT_TRUE(is_nan16(f32_to_bf16(f), 0x7f80)) << bits;
  }
}

#if defined(__x86_64__)
[[gnu::target("avx,f16c")]] uint16_t hardware_f32_to_f16(float f) {
  return static_cast<uint16_t>(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT), 0));
}
[[gnu::target("avx,f16c")]] uint32_t hardware_f16_to_f32_bits(uint16_t h) {
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_castps_si128(_mm_cvtph_ps(_mm_cvtsi32_si128(h)))));
}

TEST(Half, AgreesWithTheHardwareOnEveryBit) {
  if (!cpu_features().f16c) GTEST_SKIP() << "this CPU has no F16C";
  for (uint32_t bits = 0; bits < kAllBits16; ++bits) {
    const auto h = static_cast<uint16_t>(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(f16_to_f32(h)), hardware_f16_to_f32_bits(h)) << bits;
  }
  for (const float f : interesting_floats())
    ASSERT_EQ(f32_to_f16(f), hardware_f32_to_f16(f)) << std::bit_cast<uint32_t>(f);
}
#endif

TEST(Bfloat, EveryValueRoundTrips) {
  for (uint32_t bits = 0; bits < kAllBits16; ++bits) {
    const uint32_t quiet = is_nan16(bits, 0x7f80) ? 0x40u : 0u;
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(static_cast<uint16_t>(bits))), bits | quiet);
  }
}

TEST(Bfloat, RoundsToTheNearestWithTiesToEven) {
  Rng rng(2);
  for (int i = 0; i < 500000; ++i) {
    // A third of the patterns are exact ties, which random bits almost never produce.
    uint32_t bits = rng.next_u32() & 0x7fffffffu;
    if (i % 3 == 0) bits = (bits & 0xffff0000u) | 0x8000u;
    const auto f = std::bit_cast<float>(bits);
    if (!std::isfinite(f)) continue;
    const auto below = static_cast<uint16_t>(bits >> 16), above = static_cast<uint16_t>(below + 1);
    const double x = f, low = bf16_to_f32(below);
    const double high = above == 0x7f80 ? 0x1p128 : static_cast<double>(bf16_to_f32(above));
    const bool up = x - low > high - x || (x - low == high - x && below % 2 == 1);
    ASSERT_EQ(f32_to_bf16(f), up ? above : below) << bits;
    ASSERT_EQ(f32_to_bf16(-f), (up ? above : below) | 0x8000) << bits;
  }
}

}  // namespace
}  // namespace tessera
