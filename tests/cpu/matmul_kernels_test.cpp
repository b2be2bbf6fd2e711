// The matrix kernels of every instruction set: against a double-precision reference, and with the same bits for every
// division of rows and tokens among calls. matmul_int16_test.cpp has the values of products in 16-bit integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/half.h"
#include "tests/cpu/matmul_kernels_testing.h"

namespace tessera {
namespace {

using namespace testing;

class MatmulKernels : public ::testing::TestWithParam<FormatCase> {
 protected:
  static bool is_float() { return !info(GetParam().dtype).is_blocked(); }
  static bool is_coded() { return !is_float() || GetParam().in_int16; }
  /// Numbers of columns that are valid for this dtype.
  static std::vector<int64_t> column_counts() {
    std::vector<int64_t> counts = {32, 64, 96, 128, 160, 256, 544, 768, 1024, 2048};
    std::erase_if(counts, [](int64_t k) { return k % info(GetParam().dtype).block_elements != 0; });
    if (is_float()) counts.insert(counts.end(), {1, 3, 17, 127, 129, 300});
    return counts;
  }
};

INSTANTIATE_TEST_SUITE_P(Isas, MatmulKernels, ::testing::ValuesIn(all_format_cases()),
                         [](const auto& test) { return test.param.name(); });

/// The bound of the error of codes of 16 bits: half a unit of w and of x, in groups of 64 columns.
double int16_error(const std::vector<float>& w, const float* x, int64_t k) {
  constexpr int64_t kGroup = 64;
  constexpr double kHalfUnits = 0.5 / 5792 * (1 + 1e-4);  // 1e-4: x / d is itself rounded
  double error = 0;
  for (int64_t g = 0; g < k; g += kGroup) {
    double largest_w = 0, largest_x = 0, sum_w = 0, sum_x = 0;
    const int64_t n = std::min(kGroup, k - g);
    for (int64_t i = g; i < g + n; ++i) {
      const double abs_w = std::fabs(w[static_cast<size_t>(i)]), abs_x = std::fabs(x[i]);
      largest_w = std::max(largest_w, abs_w);
      largest_x = std::max(largest_x, abs_x);
      sum_w += abs_w;
      sum_x += abs_x;
    }
    const double error_w = largest_w * kHalfUnits, error_x = largest_x * kHalfUnits;
    error += sum_w * error_x + sum_x * error_w + static_cast<double>(n) * error_w * error_x;
  }
  return error;
}

/// The bound of |result - exact| for one output. Float kernels: k fused multiply-adds, each with two roundings on the
/// scalar set. Integer kernels: the error of each activation is at most half a step of its group's scale (largest /
/// 127), and the float chain of k/32 + k/group operations rounds like in the float kernels.
double error_bound(const FormatCase& c, const std::vector<float>& w, const float* x, int64_t k) {
  double magnitude = 0, quantization = 0;
  const int64_t group = k % 128 == 0 ? 128 : k % 64 == 0 ? 64 : 32;
  for (int64_t i = 0; i < k; ++i) magnitude += std::fabs(static_cast<double>(w[static_cast<size_t>(i)]) * x[i]);
  const double rounding = 2.0 * static_cast<double>(k + 2) * 0x1p-24;
  if (c.in_int16) return rounding * magnitude + int16_error(w, x, k);
  if (!info(c.dtype).is_blocked()) return rounding * magnitude;
  for (int64_t g = 0; g < k; g += group) {
    double largest = 0, sum_w = 0;
    for (int64_t i = g; i < g + group; ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(x[i])));
      sum_w += std::fabs(static_cast<double>(w[static_cast<size_t>(i)]));
    }
    quantization += sum_w * largest / 127 * 0.5 * (1 + 1e-4);  // 1e-4: x / d is itself rounded
    magnitude += sum_w * largest;
  }
  // Formats with minima add terms that are larger than their sum: up to 16 (q2_K's scales) times the weights here.
  return quantization + 16 * rounding * magnitude;
}

double exact_dot(const std::vector<float>& w, const float* x) {
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) sum += static_cast<double>(w[i]) * x[i];
  return sum;
}

TEST_P(MatmulKernels, AgreesWithADoubleReferenceWithinTheDerivedBound) {
  Rng rng(1);
  for (const int64_t k : column_counts()) {
    const int64_t n_rows = testing::all_or_few(37, 17), n_tokens = testing::all_or_few(15, 7);
    FileRows w = FileRows::random(GetParam(), n_rows, k, rng);
    const auto x = testing::random_floats(rng, k * n_tokens, 2.0f);
    const auto out = multiply(GetParam(), w.packed(), n_rows, k, x, n_tokens);
    for (int64_t r = 0; r < n_rows; ++r) {
      const auto values = w.values(r);
      for (int64_t t = 0; t < n_tokens; ++t)
        ASSERT_NEAR(out[static_cast<size_t>(t * n_rows + r)], exact_dot(values, &x[static_cast<size_t>(t * k)]),
                    error_bound(GetParam(), values, &x[static_cast<size_t>(t * k)], k))
            << "row " << r << " token " << t << " k " << k;
    }
  }
}

/// x after quantization in groups of `group` columns, as in the integer kernels.
std::vector<float> quantized(const std::vector<float>& x, int64_t group) {
  std::vector<float> read;
  for (size_t g = 0; g < x.size(); g += static_cast<size_t>(group)) {
    const auto values = std::span(x).subspan(g, static_cast<size_t>(group));
    float largest = 0;
    for (const float v : values) largest = std::max(largest, std::fabs(v));
    const float scale = largest / 127.0f, inverse = 1.0f / scale;
    for (const float v : values) read.push_back(scale * std::nearbyint(v * inverse));
  }
  return read;
}

TEST_P(MatmulKernels, QuantizesActivationsInGroupsOfAtMostTheColumnsAskedFor) {
  if (GetParam().in_int16) return;
  Rng rng(14);
  const int64_t n_rows = testing::all_or_few(21, 17), n_tokens = testing::all_or_few(21, 7);  // tiles, one partial
  for (const int64_t k : column_counts()) {
    if (k % 32 != 0) continue;
    FileRows w = FileRows::random(GetParam(), n_rows, k, rng);
    auto x = testing::random_floats(rng, k * n_tokens, 1.0f);
    for (size_t i = 0; i < x.size(); ++i)
      if (i / 32 % 4 == 1) x[i] *= 8;  // with a larger group, columns next to these 32 lose three bits
    for (const int64_t max_group : {32, 64, 128}) {
      int64_t group = max_group;
      while (k % group != 0) group /= 2;
      const auto read = is_float() ? x : quantized(x, group);
      const auto out = multiply(GetParam(), w.packed(), n_rows, k, x, n_tokens, max_group);
      // Each product of a scale with x may be as large as the group's largest. Formats with minima have terms of up to
      // 16 times that.
      const double rounding = static_cast<double>(is_float() ? 2 * k : k / 8 + k / group) * 0x1p-24;
      for (int64_t r = 0; r < n_rows; ++r) {
        const auto values = w.values(r);
        for (int64_t t = 0; t < n_tokens; ++t) {
          double magnitude = 0;
          for (int64_t i = 0; i < k; ++i)
            magnitude += std::fabs(double{values[static_cast<size_t>(i)]} * read[static_cast<size_t>(t * k + i)]);
          ASSERT_NEAR(out[static_cast<size_t>(t * n_rows + r)], exact_dot(values, &read[static_cast<size_t>(t * k)]),
                      16 * rounding * magnitude)
              << "row " << r << " token " << t << " k " << k << " groups of " << max_group;
        }
      }
    }
  }
}

TEST_P(MatmulKernels, GivesTheSameBitsForAnyNumberOfTokensInSmallerGroups) {
  if (is_float()) return;
  Rng rng(15);
  const int64_t k = 1280, n_rows = testing::all_or_few(83, 19), n_tokens = 40;
  const AlignedBytes panels = FileRows::random(GetParam(), n_rows, k, rng).packed();
  const auto x = testing::random_floats(rng, k * n_tokens, 3.0f);
  for (const int64_t max_group : {32, 64}) {
    const auto together = multiply(GetParam(), panels, n_rows, k, x, n_tokens, max_group);
    for (int64_t t = 0; t < n_tokens; ++t) {
      const std::vector<float> token(x.begin() + t * k, x.begin() + (t + 1) * k);
      const std::vector<float> want(together.begin() + t * n_rows, together.begin() + (t + 1) * n_rows);
      ASSERT_TRUE(testing::same_bits(multiply(GetParam(), panels, n_rows, k, token, 1, max_group), want))
          << "token " << t << " groups of " << max_group;
    }
  }
}

TEST_P(MatmulKernels, IsExactWhereEveryStepIsRepresentable) {
  if (GetParam().in_int16) return;
  // FileRows are small multiples of 1/8 and activations integers with 127 in every group (scale 1), few of them large:
  // all sums are whole multiples of 1/8 below 2^21, so no operation rounds.
  Rng rng(2);
  const int64_t k = 256, n_rows = 32, n_tokens = 7;
  FileRows w = FileRows::plausible(GetParam(), n_rows, k, 0x3c00, rng);
  if (is_float()) {
    for (int64_t r = 0; r < n_rows; ++r) {
      std::vector<float> values(k);
      for (float& v : values) v = 0.125f * static_cast<float>(static_cast<int>(rng.next_u32() % 15) - 7);
      quant::find_format(GetParam().dtype)->quantize_row_compat(values.data(), nullptr, k, w.row(r));
    }
  }
  std::vector<float> x(k * n_tokens);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = i % 128 == 5 ? 127.0f : static_cast<float>(static_cast<int>(rng.next_u32() % 7) - 3);
  const auto out = multiply(GetParam(), w.packed(), n_rows, k, x, n_tokens);
  for (int64_t r = 0; r < n_rows; ++r)
    for (int64_t t = 0; t < n_tokens; ++t)
      ASSERT_EQ(out[static_cast<size_t>(t * n_rows + r)], exact_dot(w.values(r), &x[static_cast<size_t>(t * k)]));
}

TEST_P(MatmulKernels, ReachesTheExtremesOfCodesWithoutSaturating) {
  // Every code and every activation has its largest magnitude, with equal signs: the largest possible integer sums.
  if (is_float()) return;
  const int64_t k = 256;
  for (const int fill : {0x00, 0xff, 0x80, 0x7f}) {
    for (const float activation : {127.0f, -127.0f}) {
      FileRows w(GetParam(), kPanelRows, k);
      std::ranges::fill(w.rows, static_cast<std::byte>(fill));
      w.set_scales(0x3c00);
      const std::vector<float> x(k, activation);
      const auto out = multiply(GetParam(), w.packed(), kPanelRows, k, x, 1);
      const double want = exact_dot(w.values(0), x.data());
      // The integer sums are exact; the float operations after them round a few times.
      for (const float value : out) EXPECT_NEAR(value, want, std::fabs(want) * 8 * 0x1p-24) << "bytes " << fill;
    }
  }
}

TEST_P(MatmulKernels, GivesTheSameBitsForAnyNumberOfTokens) {
  Rng rng(3);
  const int64_t k = is_float() ? 301 : 1280, n_rows = testing::all_or_few(83, 19), most_tokens = 40;
  FileRows w = FileRows::random(GetParam(), n_rows, k, rng);
  const AlignedBytes panels = w.packed();
  const auto x = testing::random_floats(rng, k * most_tokens, 3.0f);
  std::vector<float> one_by_one;
  for (int64_t t = 0; t < most_tokens; ++t) {
    const std::vector<float> token(x.begin() + t * k, x.begin() + (t + 1) * k);
    const auto out = multiply(GetParam(), panels, n_rows, k, token, 1);
    one_by_one.insert(one_by_one.end(), out.begin(), out.end());
  }
  for (int64_t n = 1; n <= most_tokens; ++n) {
    const std::vector<float> part(x.begin(), x.begin() + n * k);
    const std::vector<float> want(one_by_one.begin(), one_by_one.begin() + n * n_rows);
    ASSERT_TRUE(testing::same_bits(multiply(GetParam(), panels, n_rows, k, part, n), want)) << n << " tokens";
  }
}

TEST_P(MatmulKernels, GivesTheSameBitsForAnyDivisionOfRows) {
  Rng rng(4);
  const int64_t k = 256, most_rows = 100, n_tokens = 7;
  FileRows w = FileRows::random(GetParam(), most_rows, k, rng);
  const AlignedBytes panels = w.packed();
  const auto x = testing::random_floats(rng, k * n_tokens, 1.0f);
  const auto whole = multiply(GetParam(), panels, most_rows, k, x, n_tokens);
  const ActivationShape shape{.k = k, .n_tokens = n_tokens};
  const AlignedBytes packed = pack_activations(GetParam(), x, shape);
  const PanelFormat& format = GetParam().format();
  for (int64_t n_rows = 1; n_rows <= most_rows; ++n_rows) {
    const int64_t cut = (n_rows / 2 + 8) / kPanelRows * kPanelRows;
    testing::Guarded<float> out(most_rows * n_tokens);
    format.multiply(panels.data(), std::min(cut, n_rows), shape, packed.data(), 0, n_tokens, out.data(),
                    most_rows * sizeof(float));
    if (cut < n_rows)
      format.multiply(panels.data() + static_cast<size_t>(cut / kPanelRows) * format.panel_bytes(k), n_rows - cut,
                      shape, packed.data(), 0, n_tokens, out.data() + cut, most_rows * sizeof(float));
    ASSERT_TRUE(out.intact());
    const auto got = out.values();
    for (int64_t t = 0; t < n_tokens; ++t)
      for (int64_t r = 0; r < most_rows; ++r) {
        const auto i = static_cast<size_t>(t * most_rows + r);
        // Rows that were not requested keep the pattern of the buffer.
        const uint32_t want = r < n_rows ? std::bit_cast<uint32_t>(whole[i]) : 0xa5a5a5a5u;
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), want) << "row " << r << " of " << n_rows << ", token " << t;
      }
  }
}

TEST_P(MatmulKernels, GivesTheSameBitsForAnyDivisionOfTokens) {
  Rng rng(5);
  // Floats are multiplied in parts of up to 2048 columns.
  const int64_t k = is_float() ? 2113 : 256, n_rows = 48, n_tokens = 61;
  FileRows w = FileRows::random(GetParam(), n_rows, k, rng);
  const AlignedBytes panels = w.packed();
  const auto x = testing::random_floats(rng, k * n_tokens, 1.0f);
  const auto whole = multiply(GetParam(), panels, n_rows, k, x, n_tokens);
  const PanelFormat& format = GetParam().format();
  for (int64_t cut = format.token_tile; cut < n_tokens; cut += format.token_tile) {
    const ActivationShape shape{.k = k, .n_tokens = n_tokens};
    AlignedBytes packed(format.activation_bytes(shape));
    testing::Guarded<float> out(n_rows * n_tokens);
    for (const auto& [begin, end] : {std::pair{cut, n_tokens}, std::pair{int64_t{0}, cut}})
      format.pack_activations(x.data(), k * sizeof(float), shape, begin, end, packed.data());
    for (const auto& [begin, end] : {std::pair{cut, n_tokens}, std::pair{int64_t{0}, cut}})
      format.multiply(panels.data(), n_rows, shape, packed.data(), begin, end, out.data(), n_rows * sizeof(float));
    ASSERT_TRUE(testing::same_bits(out.values(), whole)) << "cut at " << cut;
  }
}

TEST_P(MatmulKernels, PacksAndUnpacksAnyBytesExactly) {
  Rng rng(6);
  for (const int64_t k : column_counts())
    for (const int n_rows : {1, 7, 16}) {
      FileRows w = FileRows::random_bytes(GetParam(), n_rows, k, rng);
      const AlignedBytes panel = w.packed();
      FileRows back(GetParam(), n_rows, k);
      GetParam().format().unpack(panel.data(), n_rows, k, back.rows.data(), GetParam().row_bytes(k));
      ASSERT_EQ(back.rows, w.rows) << "k " << k << " rows " << n_rows;
    }
}

TEST_P(MatmulKernels, PackingSetsEveryByteOfThePanel) {
  Rng rng(13);
  for (const int64_t k : column_counts())
    for (const int n_rows : {5, 16}) {
      FileRows w = FileRows::random(GetParam(), n_rows, k, rng);
      const size_t bytes = GetParam().format().panel_bytes(k);
      AlignedBytes zeros(bytes), ones(bytes);
      std::fill_n(zeros.data(), bytes, uint8_t{0});
      std::fill_n(ones.data(), bytes, uint8_t{0xff});
      for (const AlignedBytes* panel : {&zeros, &ones})
        GetParam().format().pack(w.row(0), GetParam().row_bytes(k), n_rows, k, panel->data());
      ASSERT_TRUE(std::equal(zeros.data(), zeros.data() + bytes, ones.data())) << "k " << k;
    }
}

TEST_P(MatmulKernels, PanelsAreWholeCacheLinesAndRowsPastTheEndAreZero) {
  Rng rng(7);
  for (const int64_t k : column_counts()) {
    EXPECT_EQ(GetParam().format().panel_bytes(k) % 64, 0u);
    FileRows w = FileRows::random(GetParam(), 3, k, rng);
    const AlignedBytes panel = w.packed();
    std::vector<float> row(static_cast<size_t>(k));
    GetParam().format().dequantize_row(panel.data(), 3, k, row.data());
    for (const float value : row) ASSERT_EQ(value, 0.0f);
  }
}

TEST_P(MatmulKernels, DequantizesRowsAsTheFormatDefines) {
  Rng rng(8);
  for (const int64_t k : column_counts()) {
    FileRows w = FileRows::random_bytes(GetParam(), kPanelRows, k, rng);
    const AlignedBytes panel = w.packed();
    for (int r = 0; r < kPanelRows; ++r) {
      std::vector<float> row(static_cast<size_t>(k));
      GetParam().format().dequantize_row(panel.data(), r, k, row.data());
      auto want = w.values(r);
      // The sign and payload of a NaN do not matter.
      for (std::vector<float>* values : {&row, &want})
        for (float& v : *values)
          if (std::isnan(v)) v = std::numeric_limits<float>::quiet_NaN();
      // q3_K multiplies scales into codes: a zero has the sign of d alone.
      if (GetParam().dtype == DType::q3_k)
        for (std::vector<float>* values : {&row, &want})
          for (float& v : *values) v += 0.0f;
      ASSERT_TRUE(testing::same_bits(row, want)) << "row " << r << " k " << k;
    }
  }
}

TEST_P(MatmulKernels, DequantizesPanelsAsRowsWhereItQuantizesActivations) {
  const PanelFormat& format = GetParam().format();
  ASSERT_EQ(format.dequantize_panel == nullptr, is_float());
  if (is_float()) return;
  Rng rng(16);
  const PanelFormat& floats = *GetParam().kernels->panel_formats[static_cast<int>(DType::f32)];
  for (const int64_t k : column_counts())
    for (const int n_rows : {5, 16}) {
      FileRows w = FileRows::random(GetParam(), n_rows, k, rng);
      const AlignedBytes panel = w.packed();
      AlignedBytes widened(floats.panel_bytes(k));
      format.dequantize_panel(panel.data(), k, reinterpret_cast<float*>(widened.data()));
      std::vector<float> got(static_cast<size_t>(k)), want(static_cast<size_t>(k));
      for (int r = 0; r < kPanelRows; ++r) {
        floats.dequantize_row(widened.data(), r, k, got.data());
        format.dequantize_row(panel.data(), r, k, want.data());
        ASSERT_TRUE(testing::same_bits(got, want)) << "row " << r << " of " << n_rows << ", k " << k;
      }
    }
}

TEST_P(MatmulKernels, AnyBytesAndAnyFloatsMultiplyWithoutHarm) {
  Rng rng(9);
  const int64_t k = 256, n_rows = 21;
  FileRows w = FileRows::random_bytes(GetParam(), n_rows, k, rng);
  const AlignedBytes panels = w.packed();
  for (const int64_t n_tokens : {1, 5, 40}) {
    std::vector<float> x(static_cast<size_t>(k * n_tokens));
    for (float& value : x) value = std::bit_cast<float>(rng.next_u32());
    const auto together = multiply(GetParam(), panels, n_rows, k, x, n_tokens);
    const std::vector<float> last(x.end() - k, x.end());
    const auto alone = multiply(GetParam(), panels, n_rows, k, last, 1);
    for (size_t r = 0; r < static_cast<size_t>(n_rows); ++r) {
      const float a = together[together.size() - static_cast<size_t>(n_rows) + r], b = alone[r];
      // NaNs may differ, because the form of the instruction determines which operand's payload survives.
      ASSERT_TRUE((std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b));
    }
  }
}

TEST_P(MatmulKernels, ANonFiniteActivationMakesItsTokenNonFiniteAndNoOther) {
  Rng rng(10);
  const int64_t k = 256, n_rows = 16, n_tokens = 3;
  FileRows w = FileRows::random(GetParam(), n_rows, k, rng);
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    auto x = testing::random_floats(rng, k * n_tokens, 1.0f);
    x[k + 77] = bad;
    const auto out = multiply(GetParam(), w.packed(), n_rows, k, x, n_tokens);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(!std::isfinite(out[i]), i / n_rows == 1) << "output " << i;
      ASSERT_TRUE(!is_coded() || i / n_rows != 1 || std::isnan(out[i])) << "output " << i;
    }
  }
}

TEST_P(MatmulKernels, NoTokensWriteNothing) {
  const FormatCase& c = GetParam();
  const AlignedBytes panel(c.format().panel_bytes(256));
  float out = 7;
  c.format().multiply(panel.data(), 5, {.k = 256, .n_tokens = 4}, panel.data(), 2, 2, &out, sizeof out);
  EXPECT_EQ(out, 7);
}

TEST_P(MatmulKernels, ZerosAndVanishingActivationsGiveZero) {
  Rng rng(11);
  const int64_t k = 256, n_rows = 16;
  FileRows w = FileRows::random(GetParam(), n_rows, k, rng);
  const AlignedBytes panels = w.packed();
  for (const float tiny : {0.0f, -0.0f, 1e-45f, 1e-37f})
    for (const float value : multiply(GetParam(), panels, n_rows, k, std::vector<float>(k, tiny), 1))
      ASSERT_NEAR(value, 0.0f, k * 1e-37 * 24);  // k values of at most 1e-37 times weights of at most 24 (nvfp4)
}

TEST(MatmulKernelsAcrossIsas, VectorSetsAgreeBitForBit) {
  const auto sets = testing::vector_kernels();
  if (sets.empty()) GTEST_SKIP() << "fewer than two vector instruction sets here";
  struct Size {
    int64_t k, n_rows, n_tokens, max_group;
  };
  // Full and partial tiles of 6 and 16 tokens, several column slices and chunks of tokens.
  constexpr Size kSizes[] = {{1280, 53, 14, 128}, {1280, 21, 35, 32}, {256, 20, 530, 128}};
  Rng rng(12);
  for (const auto& [k, n_rows, n_tokens, max_group] : kSizes) {
    const auto x = testing::random_floats(rng, k * n_tokens, 2.0f);
    for (const FormatCase& c : format_cases(sets[0])) {
      FileRows w = FileRows::random(c, n_rows, k, rng);
      const auto want = multiply(w.c, w.packed(), n_rows, k, x, n_tokens, max_group);
      for (const Kernels* kernels : sets) {
        w.c.kernels = kernels;
        EXPECT_TRUE(testing::same_bits(multiply(w.c, w.packed(), n_rows, k, x, n_tokens, max_group), want))
            << w.c.name() << " " << n_tokens;
      }
    }
  }
}

TEST(MatmulKernelsAcrossIsas, DispatchNamesWhatIsUsable) {
  const auto isas = isa::usable_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), "scalar");
  ASSERT_OK_AND_ASSIGN(const Kernels* best, cpu::select_kernels(""));
  EXPECT_EQ(best->isa, isas.back());
  EXPECT_ERROR(cpu::select_kernels("avx1024"), "usable: scalar");
}

TEST(MatmulKernelsAcrossIsas, PeaksCountTheirWork) {
  for (const Kernels* kernels : testing::usable_kernels()) {
    EXPECT_GE(kernels->peak_int8(10), 10 * 64);
    EXPECT_EQ(kernels->peak_int8(20), 2 * kernels->peak_int8(10));
    EXPECT_GE(kernels->peak_int16(10), 10 * 32);
    EXPECT_EQ(kernels->peak_int16(20), 2 * kernels->peak_int16(10));
    EXPECT_EQ(kernels->peak_f32(20), 2 * kernels->peak_f32(10));
    const std::vector<uint8_t> data(1000);
    EXPECT_EQ(kernels->peak_read(data.data(), data.size()), 768);  // whole 256-byte pieces
  }
}

}  // namespace
}  // namespace tessera
