// The scalar encoders and decoders against golden rows of the formats' reference implementation, and with hostile
// values.
#include "tessera/quant/formats.h"
#include "tessera/isa/sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

constexpr int64_t kGoldenRows = 16, kGoldenColumns = 1024;

/// Returns the dtypes that are weight formats.
std::vector<DType> weight_dtypes() {
  std::vector<DType> dtypes;
  for (const DTypeInfo& info : all_dtypes())
    if (quant::find_format(info.dtype) != nullptr) dtypes.push_back(info.dtype);
  return dtypes;
}

/// Formats whose encoding is a rule without a search.
constexpr DType kWithoutSearch[] = {DType::f16,   DType::bf16,  DType::q4_0, DType::q4_1, DType::q5_0,
                                    DType::q5_1,  DType::q8_0,  DType::q1_0, DType::q2_0, DType::tq1_0,
                                    DType::tq2_0, DType::mxfp4, DType::nvfp4};

size_t row_bytes(DType dtype, int64_t n) {
  return static_cast<size_t>(n / info(dtype).block_elements * info(dtype).block_bytes);
}

std::string golden_path(DType dtype, const char* suffix) {
  return testing::data_path("quants/" + std::string(info(dtype).name) + suffix);
}

const std::byte* bytes_of(const std::string& s) { return reinterpret_cast<const std::byte*>(s.data()); }

class GoldenFormat : public ::testing::TestWithParam<DType> {};

TEST_P(GoldenFormat, CompatGivesTheReferenceBytes) {
  if (std::ranges::find(kWithoutSearch, GetParam()) == std::end(kWithoutSearch)) GTEST_SKIP() << "a search";
  const std::string input = testing::read_all(testing::data_path("quants/input.f32")),
                    want = testing::read_all(golden_path(GetParam(), ".q"));
  const size_t bytes = row_bytes(GetParam(), kGoldenColumns);
  ASSERT_EQ(input.size(), kGoldenRows * kGoldenColumns * sizeof(float));
  ASSERT_EQ(want.size(), kGoldenRows * bytes);

  std::vector<float> x(kGoldenRows * kGoldenColumns);
  std::memcpy(x.data(), input.data(), input.size());
  std::vector<std::byte> got(want.size());
  for (size_t r = 0; r < kGoldenRows; ++r)
    quant::find_format(GetParam())
        ->quantize_row_compat(x.data() + r * kGoldenColumns, nullptr, kGoldenColumns, got.data() + r * bytes);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], bytes_of(want)[i]) << "byte " << i;
}

TEST_P(GoldenFormat, DequantizesToTheReferenceBits) {
  const std::string rows = testing::read_all(golden_path(GetParam(), ".q")),
                    want = testing::read_all(golden_path(GetParam(), ".deq"));
  ASSERT_EQ(want.size(), kGoldenRows * kGoldenColumns * sizeof(float));

  std::vector<float> got(kGoldenRows * kGoldenColumns);
  for (size_t r = 0; r < kGoldenRows; ++r)
    quant::find_format(GetParam())
        ->dequantize_row(bytes_of(rows) + r * row_bytes(GetParam(), kGoldenColumns), kGoldenColumns,
                         got.data() + r * kGoldenColumns);
  for (size_t i = 0; i < got.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, want.data() + 4 * i, 4);
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), bits) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GoldenFormat, ::testing::ValuesIn([] {
                           std::vector<DType> dtypes = weight_dtypes();
                           std::erase(dtypes, DType::f32);  // has no golden rows
                           return dtypes;
                         }()),
                         [](const auto& test) { return std::string(tessera::info(test.param).name); });

TEST(Formats, F32RowsAreCopied) {
  const float x[] = {0.0f, -0.0f, 1.5f, std::numeric_limits<float>::infinity(), 1e-45f};
  std::byte row[sizeof x];
  float out[5];
  quant::find_format(DType::f32)->quantize_row_compat(x, nullptr, 5, row);
  quant::find_format(DType::f32)->dequantize_row(row, 5, out);
  EXPECT_EQ(std::memcmp(x, out, sizeof x), 0);
}

TEST(Formats, TypesThatAreNoWeightsHaveNone) {
  EXPECT_EQ(quant::find_format(DType::i32), nullptr);
  EXPECT_EQ(quant::find_format(DType::q8_k), nullptr);
}

TEST(Formats, AZeroRowDecodesToZeros) {
  const std::vector<float> zeros(256, 0.0f);
  for (const DType dtype : weight_dtypes()) {
    const quant::Format& format = *quant::find_format(dtype);
    for (const auto encode : {format.quantize_row, format.quantize_row_compat}) {
      std::vector<std::byte> row(row_bytes(dtype, 256), std::byte{0xff});
      std::vector<float> out(256, 1.0f);
      encode(zeros.data(), nullptr, 256, row.data());
      format.dequantize_row(row.data(), 256, out.data());
      for (const float value : out) EXPECT_EQ(value, 0.0f) << info(dtype).name;
    }
  }
}

/// Values that encoders must handle: random bits, blocks of subnormals, huge and tiny values.
std::vector<float> hostile_values() {
  Rng rng(7);
  std::vector<float> x(16 * 1024);
  for (float& value : x) value = std::bit_cast<float>(rng.next_u32());  // NaN, infinities, subnormals among them
  // Blocks whose scale is subnormal, so that its reciprocal overflows.
  for (size_t i = 0; i < 512; ++i) x[i] = i % 2 == 0 ? 1e-45f : -3e-40f;
  for (size_t i = 1024; i < 2048; ++i) x[i] = rng.next_float(-1e9f, 1e9f);
  for (size_t i = 2048; i < 3072; ++i) x[i] = rng.next_float(-1e-9f, 1e-9f);
  return x;
}

TEST(Formats, AnyBitPatternEncodesToTheSameBytesOnEveryInstructionSet) {
  const std::vector<float> x = hostile_values();
  std::vector<float> weights(x.size());
  Rng rng(8);
  for (float& w : weights) w = rng.next_float(0.01f, 10.0f);
  const auto n = static_cast<int64_t>(x.size());
  for (const DType dtype : weight_dtypes()) {
    for (const float* w : {static_cast<const float*>(nullptr), static_cast<const float*>(weights.data())}) {
      std::vector<std::byte> first, first_compat;
      for (const std::string_view isa : isa::usable_isas()) {
        const quant::Format& format = *quant::find_format(dtype, isa);
        std::vector<std::byte> row(row_bytes(dtype, n)), compat(row.size());
        format.quantize_row(x.data(), w, n, row.data());
        format.quantize_row_compat(x.data(), w, n, compat.data());
        if (first.empty()) first = row, first_compat = compat;
        EXPECT_TRUE(row == first) << info(dtype).name << " " << isa;
        EXPECT_TRUE(compat == first_compat) << info(dtype).name << " compat " << isa;
      }
    }
  }
}

TEST(Formats, FiniteValuesGiveFiniteValuesNoWorseThanZeros) {
  Rng rng(9);
  for (const float magnitude : {1e-12f, 1e-9f, 1e-6f, 1e-3f, 1.0f, 1e3f}) {
    std::vector<float> x(1024), out(1024);
    for (float& v : x) v = rng.next_float(-magnitude, magnitude);
    for (const DType dtype : weight_dtypes()) {
      std::vector<std::byte> row(row_bytes(dtype, 1024));
      const quant::Format& format = *quant::find_format(dtype);
      format.quantize_row(x.data(), nullptr, 1024, row.data());
      format.dequantize_row(row.data(), 1024, out.data());
      double error = 0, zeros = 0;
      for (size_t i = 0; i < 1024; ++i) {
        ASSERT_TRUE(std::isfinite(out[i])) << info(dtype).name << " " << magnitude;
        error += (double{x[i]} - out[i]) * (double{x[i]} - out[i]);
        zeros += double{x[i]} * x[i];
      }
      EXPECT_LE(error, zeros * 1.0001) << info(dtype).name << " " << magnitude;
    }
  }
}

TEST(Formats, AnyBytesDecodeAlikeOnEveryInstructionSet) {
  Rng rng(10);
  for (const DType dtype : weight_dtypes()) {
    std::vector<std::byte> row(row_bytes(dtype, 4096));
    for (std::byte& b : row) b = static_cast<std::byte>(rng.next_u32() >> 24);
    std::vector<uint32_t> first;
    for (const std::string_view isa : isa::usable_isas()) {
      std::vector<uint32_t> bits(4096);
      quant::find_format(dtype, isa)->dequantize_row(row.data(), 4096, reinterpret_cast<float*>(bits.data()));
      if (first.empty()) first = bits;
      EXPECT_TRUE(bits == first) << info(dtype).name << " " << isa;
    }
  }
}

TEST(Formats, Q4_0KeepsTheLargestMagnitudeExactly) {
  std::vector<float> x(32, 0.25f);
  x[11] = -4.0f;  // d = 0.5, code 0
  x[30] = 3.5f;   // code 15
  std::byte row[18];
  std::vector<float> out(32);
  quant::find_format(DType::q4_0)->quantize_row_compat(x.data(), nullptr, 32, row);
  quant::find_format(DType::q4_0)->dequantize_row(row, 32, out.data());
  EXPECT_EQ(out[11], -4.0f);
  EXPECT_EQ(out[30], 3.5f);
  EXPECT_EQ(out[0], 0.5f);  // 0.25 / 0.5 = 0.5 rounds up by truncation of 9.0
}

TEST(Formats, Q8_0RoundsHalfAwayFromZero) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f;  // d = 1
  x[1] = 2.5f;
  x[2] = -2.5f;
  std::byte row[34];
  std::vector<float> out(32);
  quant::find_format(DType::q8_0)->quantize_row_compat(x.data(), nullptr, 32, row);
  quant::find_format(DType::q8_0)->dequantize_row(row, 32, out.data());
  EXPECT_EQ(out[1], 3.0f);
  EXPECT_EQ(out[2], -3.0f);
}

}  // namespace
}  // namespace tessera
