// The scalar truth against golden rows of the formats' reference implementation, and against hostile values.
#include "tessera/quant/formats.h"

#include <gtest/gtest.h>

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

constexpr int64_t kRows = 16, kColumns = 1024;

constexpr DType kBuilt[] = {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q8_0};

size_t row_bytes(DType dtype, int64_t n) {
  return static_cast<size_t>(n / info(dtype).block_elements * info(dtype).block_bytes);
}

std::string golden_name(DType dtype, const char* suffix) {
  return "golden/quants/" + std::string(info(dtype).name) + suffix;
}

const std::byte* bytes_of(const std::string& s) { return reinterpret_cast<const std::byte*>(s.data()); }

class GoldenFormat : public ::testing::TestWithParam<DType> {};

TEST_P(GoldenFormat, QuantizesToTheReferenceBytes) {
  TESSERA_SHARED_OR_SKIP(input_path, "golden/quants/input.f32");
  TESSERA_SHARED_OR_SKIP(q_path, golden_name(GetParam(), ".q"));
  const std::string input = testing::read_all(input_path), want = testing::read_all(q_path);
  const size_t bytes = row_bytes(GetParam(), kColumns);
  ASSERT_EQ(input.size(), kRows * kColumns * sizeof(float));
  ASSERT_EQ(want.size(), kRows * bytes);

  std::vector<float> x(kRows * kColumns);
  std::memcpy(x.data(), input.data(), input.size());
  std::vector<std::byte> got(want.size());
  for (size_t r = 0; r < kRows; ++r)
    quant::find_format(GetParam())->quantize_row(x.data() + r * kColumns, kColumns, got.data() + r * bytes);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], bytes_of(want)[i]) << "byte " << i;
}

TEST_P(GoldenFormat, DequantizesToTheReferenceBits) {
  TESSERA_SHARED_OR_SKIP(q_path, golden_name(GetParam(), ".q"));
  TESSERA_SHARED_OR_SKIP(deq_path, golden_name(GetParam(), ".deq"));
  const std::string rows = testing::read_all(q_path), want = testing::read_all(deq_path);
  ASSERT_EQ(want.size(), kRows * kColumns * sizeof(float));

  std::vector<float> got(kRows * kColumns);
  for (size_t r = 0; r < kRows; ++r)
    quant::find_format(GetParam())
        ->dequantize_row(bytes_of(rows) + r * row_bytes(GetParam(), kColumns), kColumns, got.data() + r * kColumns);
  for (size_t i = 0; i < got.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, want.data() + 4 * i, 4);
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), bits) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GoldenFormat, ::testing::Values(DType::f16, DType::bf16, DType::q4_0, DType::q8_0),
                         [](const auto& test) { return std::string(tessera::info(test.param).name); });

TEST(Formats, F32RowsAreCopied) {
  const float x[] = {0.0f, -0.0f, 1.5f, std::numeric_limits<float>::infinity(), 1e-45f};
  std::byte row[sizeof x];
  float out[5];
  quant::find_format(DType::f32)->quantize_row(x, 5, row);
  quant::find_format(DType::f32)->dequantize_row(row, 5, out);
  EXPECT_EQ(std::memcmp(x, out, sizeof x), 0);
}

TEST(Formats, TypesThatAreNoWeightsHaveNone) {
  EXPECT_EQ(quant::find_format(DType::i32), nullptr);
  EXPECT_EQ(quant::find_format(DType::q8_k), nullptr);
}

TEST(Formats, AZeroRowDecodesToZeros) {
  const std::vector<float> zeros(64, 0.0f);
  for (const DType dtype : kBuilt) {
    std::vector<std::byte> row(row_bytes(dtype, 64), std::byte{0xff});
    std::vector<float> out(64, 1.0f);
    quant::find_format(dtype)->quantize_row(zeros.data(), 64, row.data());
    quant::find_format(dtype)->dequantize_row(row.data(), 64, out.data());
    for (const float value : out) EXPECT_EQ(value, 0.0f) << info(dtype).name;
  }
}

TEST(Formats, AnyBitPatternQuantizesWithoutUndefinedBehaviour) {
  Rng rng(7);
  std::vector<float> x(32 * 256);
  for (float& value : x) value = std::bit_cast<float>(rng.next_u32());  // NaN, infinities, subnormals among them
  // Blocks whose scale is subnormal, so that its reciprocal overflows.
  for (size_t i = 0; i < 64; ++i) x[i] = i % 2 == 0 ? 1e-45f : -3e-40f;
  for (const DType dtype : kBuilt) {
    const auto n = static_cast<int64_t>(x.size());
    std::vector<std::byte> once(row_bytes(dtype, n)), again(once.size());
    quant::find_format(dtype)->quantize_row(x.data(), n, once.data());
    quant::find_format(dtype)->quantize_row(x.data(), n, again.data());
    EXPECT_EQ(once, again) << info(dtype).name;
  }
}

TEST(Formats, Q4_0KeepsTheLargestMagnitudeExactly) {
  std::vector<float> x(32, 0.25f);
  x[11] = -4.0f;  // d = 0.5, code 0
  x[30] = 3.5f;   // code 15
  std::byte row[18];
  std::vector<float> out(32);
  quant::find_format(DType::q4_0)->quantize_row(x.data(), 32, row);
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
  quant::find_format(DType::q8_0)->quantize_row(x.data(), 32, row);
  quant::find_format(DType::q8_0)->dequantize_row(row, 32, out.data());
  EXPECT_EQ(out[1], 3.0f);
  EXPECT_EQ(out[2], -3.0f);
}

}  // namespace
}  // namespace tessera
