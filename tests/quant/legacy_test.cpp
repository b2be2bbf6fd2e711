// Properties of single formats of 16 to 64 elements that the tests of all formats do not cover.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/quant/formats.h"

namespace tessera {
namespace {

using Encoder = void (*)(const float* x, const float* weights, int64_t n, void* row);

const quant::Format& format_of(DType dtype) { return *quant::find_format(dtype); }

std::vector<uint8_t> encode(DType dtype, Encoder encoder, const std::vector<float>& x, const float* weights = nullptr) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<uint8_t> row(static_cast<size_t>(n / info(dtype).block_elements * info(dtype).block_bytes));
  encoder(x.data(), weights, n, row.data());
  return row;
}
std::vector<float> decode(DType dtype, const std::vector<uint8_t>& row) {
  std::vector<float> x(row.size() / static_cast<size_t>(info(dtype).block_bytes) *
                       static_cast<size_t>(info(dtype).block_elements));
  format_of(dtype).dequantize_row(row.data(), static_cast<int64_t>(x.size()), x.data());
  return x;
}
std::vector<float> round_trip(DType dtype, const std::vector<float>& x, const float* weights = nullptr) {
  return decode(dtype, encode(dtype, format_of(dtype).quantize_row, x, weights));
}

double nmse(const std::vector<float>& x, const std::vector<float>& value, const float* weights = nullptr) {
  double error = 0, total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = weights == nullptr ? 1.0 : weights[i], e = double{x[i]} - value[i];
    error += w * e * e;
    total += w * double{x[i]} * x[i];
  }
  return error / total;
}

std::vector<float> gaussian(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x(n);
  for (float& v : x) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.next_double()));
    v = static_cast<float>(radius * std::cos(2 * M_PI * rng.next_double()));
  }
  return x;
}

constexpr DType kScalar[] = {DType::q4_0,   DType::q4_1,  DType::q5_0,  DType::q5_1, DType::q8_0, DType::iq4_nl,
                             DType::iq4_xs, DType::mxfp4, DType::nvfp4, DType::q1_0, DType::q2_0};

TEST(Legacy, AffineFormatsStoreAPositiveLeastValue) {
  std::vector<float> x = gaussian(16384, 1), ones(16384, 1.0f);
  for (float& v : x) v = std::fabs(v) + 3.0f;
  // Section 2.8, step 3: 1.05e-4 for q4_1, and 5.63e-4 with an offset of at most 0. With 16384 values, 2 % tolerance.
  EXPECT_LE(nmse(x, round_trip(DType::q4_1, x)), 1.07e-4);
  const auto compat = encode(DType::q4_1, format_of(DType::q4_1).quantize_row_compat, x, ones.data());
  EXPECT_NEAR(nmse(x, decode(DType::q4_1, compat)), 5.63e-4, 0.3e-4);  // another sample
  // About a quarter of the square of q4_1's steps.
  EXPECT_LE(nmse(x, round_trip(DType::q5_1, x)), 2.6e-5);
}

TEST(Legacy, ConstantBlocksKeepTheirValue) {
  for (const float value : {0.7f, -0.7f})
    for (const DType dtype : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::iq4_nl}) {
      const std::vector<float> x(64, value);
      EXPECT_LE(nmse(x, round_trip(dtype, x)), 2.4e-7)
          << info(dtype).name;  // the scale is rounded by at most 2^-11, thus (2^-11)^2
    }
}

TEST(Legacy, SymmetricFormatsUseTheWholeRangeOfEitherSign) {
  for (const float sign : {1.0f, -1.0f})
    for (const auto& [dtype, low] : {std::pair{DType::q4_0, -8}, {DType::q5_0, -16}, {DType::q8_0, -128}}) {
      std::vector<float> x(256);
      for (size_t i = 0; i < 256; ++i) {  // every block contains both ends
        const int step = i % 32 == 0 ? 0 : i % 32 == 1 ? -2 * low - 1 : static_cast<int>(i) % (-2 * low);
        x[i] = sign * static_cast<float>(low + step);
      }
      EXPECT_EQ(round_trip(dtype, x), x) << info(dtype).name << " " << sign;
    }
}

TEST(Legacy, SymmetricFormatsMayCutOffTheLargestMagnitude) {
  // Integers, many of them -top, which a d of about 1 represents. The one value above +top becomes top - 1.
  for (const auto& [dtype, top] : {std::pair{DType::q4_0, 8}, {DType::q5_0, 16}}) {
    std::vector<float> x(32, static_cast<float>(-top));
    for (int i = 8; i < 32; ++i) x[static_cast<size_t>(i)] = static_cast<float>(5 * i % (2 * top) - top);
    x[0] = static_cast<float>(top) + 0.25f;
    const std::vector<float> value = round_trip(dtype, x);
    // That value changes d a little: by 1.25 (top - 1) / sum of squares, which is 0.1 at -top.
    for (size_t i = 0; i < 32; ++i)
      EXPECT_NEAR(value[i], i == 0 ? static_cast<float>(top - 1) : x[i], 0.25f) << info(dtype).name;
  }
}

TEST(Legacy, MXFP4TakesTheNextPowerOfTwoWhenTheTopIsCutOff) {
  std::vector<float> x(32, 4.0f);
  x[3] = 7.9f;  // 6 is the largest value at the scale of 1, 8 is a value at 2
  const auto search = encode(DType::mxfp4, format_of(DType::mxfp4).quantize_row, x);
  const auto compat = encode(DType::mxfp4, format_of(DType::mxfp4).quantize_row_compat, x);
  EXPECT_EQ(compat[0], 127);
  EXPECT_EQ(search[0], 128);
  EXPECT_EQ(decode(DType::mxfp4, search)[3], 8.0f);
  EXPECT_EQ(decode(DType::mxfp4, compat)[3], 6.0f);
}

TEST(Legacy, MXFP4ReachesBothEndsOfFloats) {
  for (const float magnitude : {3.4e38f, 1e-36f, 1e-37f}) {
    std::vector<float> x = gaussian(1024, 4);
    for (float& v : x) v *= magnitude / 8.0f;
    x[5] = magnitude;
    const std::vector<float> value = round_trip(DType::mxfp4, x);
    for (const float v : value) ASSERT_TRUE(std::isfinite(v)) << magnitude;
    EXPECT_LE(nmse(x, value), 0.03) << magnitude;
  }
}

TEST(Legacy, NVFP4EncodesScalesAbove248) {
  std::vector<float> x(64, 150.0f);
  for (size_t i = 0; i < 64; i += 16) x[i] = 6.0f * 288.0f;  // a scale of 288 represents 0.5 and 6 times it
  for (size_t i = 1; i < 16; ++i) x[i] = 144.0f;
  const auto search = encode(DType::nvfp4, format_of(DType::nvfp4).quantize_row, x);
  EXPECT_EQ(search[0], 15 << 3 | 1);  // (1 + 1/8) 2^8
  EXPECT_EQ(decode(DType::nvfp4, search)[0], 1728.0f);
  EXPECT_EQ(decode(DType::nvfp4, search)[1], 144.0f);
  const auto compat = encode(DType::nvfp4, format_of(DType::nvfp4).quantize_row_compat, x);
  EXPECT_EQ(compat[0], 0x7e);  // ggml's bytes
}

TEST(Legacy, ValuesBeyondTheLargestScaleAreCutOffThere) {
  for (const float magnitude : {1e6f, 1e12f, 3e38f}) {
    std::vector<float> x = gaussian(1024, 6);
    for (float& v : x) v *= magnitude / 6.0f;
    for (const DType dtype : kScalar) {
      const std::vector<float> value = round_trip(dtype, x);
      for (const float v : value) ASSERT_TRUE(std::isfinite(v)) << info(dtype).name << " " << magnitude;
      EXPECT_LE(nmse(x, value), 1.0 + 1e-6) << info(dtype).name << " " << magnitude;
    }
  }
}

TEST(Legacy, ANonFiniteValueSpoilsOnlyItsBlock) {
  const std::vector<float> x = gaussian(1024, 7);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
    for (const DType dtype : kScalar) {
      std::vector<float> hurt = x;
      hurt[300] = bad;
      const std::vector<float> want = round_trip(dtype, x), value = round_trip(dtype, hurt);
      const auto block = static_cast<size_t>(info(dtype).block_elements);
      for (size_t i = 0; i < 1024; ++i) {
        ASSERT_TRUE(std::isfinite(value[i])) << info(dtype).name;
        if (i / block == 300 / block) continue;
        ASSERT_EQ(value[i], want[i]) << info(dtype).name << " " << i;
      }
    }
}

TEST(Legacy, ARowMayEndInAPartOfAGroup) {
  const std::vector<float> x = gaussian(8192, 8);
  for (const DType dtype : kScalar)
    for (const size_t n : {256u, 1280u, 4352u}) {
      const std::vector<float> part(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n));
      const auto whole = encode(dtype, format_of(dtype).quantize_row, x);
      const auto row = encode(dtype, format_of(dtype).quantize_row, part);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), whole.begin())) << info(dtype).name << " " << n;
    }
}

TEST(Legacy, WeightsLowerTheWeightedError) {
  const std::vector<float> x = gaussian(4096, 9);
  std::vector<float> weights = gaussian(4096, 10);
  for (float& w : weights) w = std::exp(2.0f * w);
  for (const DType dtype : kScalar)
    EXPECT_LT(nmse(x, round_trip(dtype, x, weights.data()), weights.data()),
              0.995 * nmse(x, round_trip(dtype, x), weights.data()))  // mxfp4 has only two scales to choose from
        << info(dtype).name;
}

}  // namespace
}  // namespace tessera
