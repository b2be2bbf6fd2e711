// Formats of one and two bits: the search keeps rows of weights trained for these formats exactly. Other rows reach the
// least error that the format allows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/quant/formats.h"

namespace tessera {
namespace {

constexpr int64_t kTernaryColumns = 2048;

/// Scales that f16 represents exactly: plain, subnormal, large, and with all bits of the mantissa.
constexpr float kScales[] = {1.0f, 0.013671875f, 3 * 0x1p-24f, 30000.0f, 0x1.ffcp-5f};

std::vector<float> ternary_round_trip(DType dtype, const std::vector<float>& x, const float* weights = nullptr) {
  const auto n = static_cast<int64_t>(x.size());
  const quant::Format& format = *quant::find_format(dtype);
  std::vector<std::byte> row(static_cast<size_t>(n / info(dtype).block_elements * info(dtype).block_bytes));
  std::vector<float> value(x.size());
  format.quantize_row(x.data(), weights, n, row.data());
  format.dequantize_row(row.data(), n, value.data());
  return value;
}

/// Returns evenly drawn levels. Every other block of 256 is sparse, with one value in 32 that is not levels[0].
std::vector<float> draw(const std::vector<float>& levels, float d, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x(kTernaryColumns);
  for (size_t i = 0; i < x.size(); ++i) {
    const bool keep = i / 256 % 2 == 0 || rng.next_u32() % 32 == 0;
    x[i] = d * (keep ? levels[rng.next_u32() % levels.size()] : levels[0]);
  }
  return x;
}

void expect_exact(DType dtype, const std::vector<float>& levels) {
  std::vector<float> weights(kTernaryColumns);
  Rng rng(5);
  for (float& w : weights) w = rng.next_float(0.01f, 10.0f);
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (const float d : kScales) {
      const std::vector<float> x = draw(levels, d, seed);
      for (const float* w : {static_cast<const float*>(nullptr), static_cast<const float*>(weights.data())}) {
        const std::vector<float> value = ternary_round_trip(dtype, x, w);
        const auto wrong = std::ranges::mismatch(x, value);
        EXPECT_EQ(wrong.in1, x.end()) << info(dtype).name << " d " << d << " at " << wrong.in1 - x.begin() << ": "
                                      << *wrong.in1 << " became " << *wrong.in2;
      }
    }
}

TEST(Ternary, RowsOfThreeLevelsAreKept) {
  for (const DType dtype : {DType::tq1_0, DType::tq2_0, DType::q2_0}) expect_exact(dtype, {0, 1, -1});
}

TEST(Ternary, RowsOfFourLevelsAreKeptOfEitherSign) {
  expect_exact(DType::q2_0, {0, -1, 1, 2});
  expect_exact(DType::q2_0, {0, 1, -1, -2});
}

TEST(Ternary, RowsOfTwoLevelsAreKept) { expect_exact(DType::q1_0, {1, -1}); }

TEST(Ternary, TheLargestMagnitudeMayBecomeTheShorterEnd) {
  std::vector<float> x = draw({0, -1, 1, 2}, 1.0f, 2);
  for (size_t i = 0; i < x.size(); i += 64) x[i] = -2.25f;
  const std::vector<float> value = ternary_round_trip(DType::q2_0, x);
  for (size_t i = 0; i < 256; ++i) EXPECT_NEAR(value[i], i % 64 == 0 ? -1.0f : x[i], 0.05f) << i;
}

TEST(Ternary, CompatMissesTheFourthLevel) {
  const std::vector<float> x = draw({0, -1, 1, 2}, 1.0f, 1);
  const quant::Format& format = *quant::find_format(DType::q2_0);
  std::vector<std::byte> row(kTernaryColumns / 64 * 18);
  std::vector<float> value(kTernaryColumns);
  format.quantize_row_compat(x.data(), nullptr, kTernaryColumns, row.data());
  format.dequantize_row(row.data(), kTernaryColumns, value.data());
  EXPECT_NE(value, x);
}

double error(const std::vector<float>& x, const std::vector<float>& value, size_t first, size_t n) {
  double sum = 0;
  for (size_t i = first; i < first + n; ++i) sum += (double{x[i]} - value[i]) * (double{x[i]} - value[i]);
  return sum;
}

std::vector<float> gaussian_row(uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x(kTernaryColumns);
  for (float& v : x) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.next_double()));
    v = static_cast<float>(radius * std::cos(2 * M_PI * rng.next_double()));
  }
  return x;
}

TEST(Ternary, OtherRowsReachTheLeastError) {
  const std::vector<float> x = gaussian_row(3), value = ternary_round_trip(DType::tq2_0, x);
  for (size_t block = 0; block < x.size(); block += 256) {
    std::vector<double> magnitudes;
    double squares = 0, sum = 0, best_gain = 0;
    for (size_t i = block; i < block + 256; ++i) {
      magnitudes.push_back(std::fabs(double{x[i]}));
      squares += double{x[i]} * x[i];
    }
    std::ranges::sort(magnitudes, std::greater{});
    for (size_t k = 0; k < 256; ++k) {  // the k + 1 largest become +-d, their mean
      sum += magnitudes[k];
      best_gain = std::max(best_gain, sum * sum / static_cast<double>(k + 1));
    }
    // The thresholds reach a local optimum, at most a few elements from the best. Rounding d costs 1e-7.
    EXPECT_LE(error(x, value, block, 256), (squares - best_gain) * 1.005);
  }
}

TEST(Ternary, TheScaleOfSignsIsTheWeightedMeanOfMagnitudes) {
  std::vector<float> x(128, 1.0f), weights(128, 1.0f);
  for (size_t i = 0; i < 128; i += 2) x[i] = -3.0f, weights[i] = 3.0f;
  EXPECT_EQ(ternary_round_trip(DType::q1_0, x, weights.data())[0], -2.5f);
}

}  // namespace
}  // namespace tessera
