// Properties of the codebook formats (iq1, iq2, iq3) and of their search, in addition to the error table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/quant/codebooks.h"
#include "tessera/quant/formats.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

constexpr int64_t kBlock = 256;

/// A format, the byte and bits of its first scale block's multiplier, and the position of d (iq1_m: in nibbles).
struct Case {
  DType dtype;
  size_t scale_byte;
  uint8_t scale_bits;
};
constexpr Case kCases[] = {
    {DType::iq2_xxs, 9, 0xf0}, {DType::iq2_xs, 66, 0x0f}, {DType::iq2_s, 74, 0x0f}, {DType::iq3_xxs, 69, 0xf0},
    {DType::iq3_s, 106, 0x0f}, {DType::iq1_s, 35, 0x70},  {DType::iq1_m, 48, 0x07},
};

using Row = std::vector<uint8_t>;

class CodebookFormat : public ::testing::TestWithParam<Case> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  Row empty_row(int64_t n = kBlock) const {
    return Row(static_cast<size_t>(n / kBlock * tessera::info(dtype()).block_bytes));
  }
  std::vector<float> decoded(const Row& row, int64_t n = kBlock) const {
    std::vector<float> out(static_cast<size_t>(n));
    quant::find_format(dtype())->dequantize_row(row.data(), n, out.data());
    return out;
  }
  Row encoded(const std::vector<float>& x, const float* weights = nullptr) const {
    Row row = empty_row(static_cast<int64_t>(x.size()));
    quant::find_format(dtype())->quantize_row(x.data(), weights, static_cast<int64_t>(x.size()), row.data());
    return row;
  }
  void set_d(Row& row, uint32_t f16) const {
    if (dtype() == DType::iq1_m) {
      for (size_t i = 0; i < 4; ++i)
        row[49 + 2 * i] = static_cast<uint8_t>((row[49 + 2 * i] & 15u) | (f16 >> 4 * i & 15u) << 4);
    } else {
      row[0] = static_cast<uint8_t>(f16);
      row[1] = static_cast<uint8_t>(f16 >> 8);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, CodebookFormat, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(tessera::info(test.param.dtype).name); });

std::vector<float> draw(uint64_t seed, float magnitude = 1.0f) {
  Rng rng(seed);
  std::vector<float> x(kBlock);
  for (float& v : x) {  // nearly normal
    v = 0.0f;
    for (int i = 0; i < 4; ++i) v += rng.next_float(-magnitude, magnitude);
  }
  return x;
}

double error_of(const std::vector<float>& x, const std::vector<float>& value, const std::vector<float>& w = {}) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double e = double{x[i]} - value[i];
    sum += (w.empty() ? 1.0 : w[i]) * e * e;
  }
  return sum;
}

TEST_P(CodebookFormat, ValuesOnTheGridAreKept) {
  Rng rng(3);
  int n_kept = 0;
  constexpr int kTrials = 20;
  for (int trial = 0; trial < kTrials; ++trial) {
    Row row = empty_row();
    for (uint8_t& b : row) b = static_cast<uint8_t>(rng.next_u32() >> 24);
    row[GetParam().scale_byte] |= GetParam().scale_bits;  // sets the largest multiplier, which determines d
    set_d(row, 0x3400);                                   // 0.25
    const std::vector<float> x = decoded(row);
    n_kept += decoded(encoded(x)) == x;
  }
  // The search depends on its first guess of the scale, and for random points another scale may be better at first.
  EXPECT_GE(n_kept, kTrials - 2);
}

TEST_P(CodebookFormat, AnOutlierLeavesABlockBetterThanZeros) {
  std::vector<float> x = draw(4);
  x[100] = 1e4f;
  const std::vector<float> value = decoded(encoded(x));
  // At scale s the outlier is 43 s and each of the 31 others at least 8 s (iq2_xxs, the worst). Of the outlier's square
  // 31 * 64 / (31 * 64 + 43 * 43) remain.
  EXPECT_LT(error_of(x, value), 0.53 * error_of(x, std::vector<float>(kBlock, 0.0f)));
}

TEST_P(CodebookFormat, ZerosWithinABlockBecomeItsSmallestValues) {
  std::vector<float> x = draw(5);
  std::fill(x.begin() + 64, x.begin() + 96, 0.0f);
  const std::vector<float> value = decoded(encoded(x));
  for (size_t i = 64; i < 96; ++i) EXPECT_LT(std::fabs(value[i]), 0.15f) << i;  // the deviation is 1.15
}

TEST_P(CodebookFormat, WeightsMoveTheErrorToLightElements) {
  const std::vector<float> x = draw(6);
  std::vector<float> w(kBlock, 1.0f);
  for (size_t i = 0; i < w.size(); i += 8) w[i] = 100.0f;
  const double weighted = error_of(x, decoded(encoded(x, w.data())), w);
  EXPECT_LT(weighted, 0.7 * error_of(x, decoded(encoded(x)), w));
}

TEST_P(CodebookFormat, ScaledWeightsAndValuesGiveTheSameCodes) {
  const std::vector<float> x = draw(7);
  std::vector<float> scaled = x, w(kBlock, 0x1p100f);
  for (float& v : scaled) v *= 0x1p-4f;
  std::vector<float> value = decoded(encoded(scaled, w.data()));
  for (float& v : value) v *= 0x1p4f;
  EXPECT_EQ(value, decoded(encoded(x)));
}

TEST_P(CodebookFormat, HugeValuesClampTheScale) {
  std::vector<float> x = draw(8, 1e30f);
  for (const float v : decoded(encoded(x))) EXPECT_TRUE(std::isfinite(v));
  x[3] = std::numeric_limits<float>::infinity();
  x[4] = std::numeric_limits<float>::quiet_NaN();
  for (const float v : decoded(encoded(x))) EXPECT_TRUE(std::isfinite(v));
}

/// Compares with rows from the reference's search without an imatrix. Some sums have another order, so blocks differ.
TEST_P(CodebookFormat, CompatGivesMostBlocksOfTheReference) {
  const std::string name(tessera::info(dtype()).name);
  const std::string input = testing::read_all(testing::data_path("quants/input.f32")),
                    want = testing::read_all(testing::data_path("quants/" + name + ".q"));
  std::vector<float> x(input.size() / sizeof(float));
  std::memcpy(x.data(), input.data(), input.size());
  const auto n = static_cast<int64_t>(x.size());
  Row got = empty_row(n);
  ASSERT_EQ(got.size(), want.size());
  const size_t bytes = empty_row().size();
  int64_t n_equal = 0;
  for (int64_t b = 0; b < n / kBlock; ++b) {
    uint8_t* row = got.data() + static_cast<size_t>(b) * bytes;
    quant::find_format(dtype())->quantize_row_compat(x.data() + b * kBlock, nullptr, kBlock, row);
    n_equal += std::memcmp(row, want.data() + static_cast<size_t>(b) * bytes, bytes) == 0;
  }
  EXPECT_GE(n_equal * 4, n / kBlock * 3);
}

TEST(CodebookSigns, TheEighthMakesTheirNumberEven) {
  // iq2_xs: d = 1, point 0 (all 8), sign index 1 (elements 0 and 7), s = 3: 3.5 / 4 * 8.
  Row row(74);
  row[1] = 0x3c;
  row[3] = 1 << 1;
  row[66] = 3;
  std::vector<float> out(kBlock);
  quant::find_format(DType::iq2_xs)->dequantize_row(row.data(), kBlock, out.data());
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(out[i], i == 0 || i == 7 ? -7.0f : 7.0f) << i;
}

TEST(CodebookSigns, OnlyTheLeastElementOfAnOddGroupIsFlipped) {
  std::vector<float> x(kBlock, 1.0f);
  x[3] = -0.3f;  // the only negative one of its eight
  x[8] = -0.9f, x[9] = -0.8f;
  Row row(66);
  std::vector<float> out(kBlock);
  quant::find_format(DType::iq2_xxs)->quantize_row(x.data(), nullptr, kBlock, row.data());
  quant::find_format(DType::iq2_xxs)->dequantize_row(row.data(), kBlock, out.data());
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i] < 0.0f, i == 8 || i == 9) << i;
}

TEST(CodebookSearch, PointsAreTheBestOfAllAtTheirScale) {
  const std::vector<float> x = draw(11);
  Row row(82);
  std::vector<float> out(kBlock);
  const quant::Format& format = *quant::find_format(DType::iq2_s);
  format.quantize_row(x.data(), nullptr, kBlock, row.data());
  format.dequantize_row(row.data(), kBlock, out.data());
  float d;
  const uint16_t bits = static_cast<uint16_t>(row[0] | row[1] << 8);
  quant::find_format(DType::f16)->dequantize_row(&bits, 1, &d);
  for (size_t g = 0; g < 32; ++g) {
    const int s = row[74 + g / 4] >> 4 * (g / 2 % 2) & 15;
    const double scale = d * static_cast<float>(2 * s + 1) / 8.0f;
    double least = 1e30, got = 0;
    for (const uint64_t point : quant::codebooks::kIq2s) {
      double error = 0;
      for (size_t i = 0; i < 8; ++i) {
        const double e = std::fabs(x[8 * g + i]) - scale * static_cast<double>(point >> 8 * i & 255);
        error += e * e;
      }
      least = std::min(least, error);
    }
    for (size_t i = 0; i < 8; ++i) got += (x[8 * g + i] - out[8 * g + i]) * (x[8 * g + i] - out[8 * g + i]);
    EXPECT_NEAR(got, least, 1e-5) << g;  // f32 sums of values near 1
  }
}

}  // namespace
}  // namespace tessera
