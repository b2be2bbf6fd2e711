// Faults of stored weights: a good block of each dtype, and the same block with each of its scales infinite or NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/quant/formats.h"
#include "tests/support/testing.h"

namespace tessera::quant {
namespace {

// A field of a block and values of it that make the block bad.
struct Field {
  DType dtype;
  size_t offset;
  std::vector<uint8_t> infinity;  // little-endian
  std::vector<uint8_t> largest;   // the largest finite value of the field
  std::string_view what;
};

const std::vector<uint8_t> kF16Inf = {0x00, 0x7c}, kF16Max = {0xff, 0x7b};

std::vector<Field> all_fields() {
  const std::string_view scale = "scale is not finite", minimum = "minimum is not finite",
                         value = "value is not finite";
  std::vector<Field> fields = {
      {DType::f32, 0, {0, 0, 0x80, 0x7f}, {0xff, 0xff, 0x7f, 0x7f}, value},
      {DType::f16, 0, kF16Inf, kF16Max, value},
      {DType::bf16, 0, {0x80, 0x7f}, {0x7f, 0x7f}, value},
      {DType::f64, 0, {0, 0, 0, 0, 0, 0, 0xf0, 0x7f}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0x7f}, value},
      {DType::q8_k, 0, {0, 0, 0x80, 0x7f}, {0, 0, 0x7f, 0x7b}, scale},
      {DType::mxfp4, 0, {255}, {252}, scale},
      {DType::iq1_m, 48, {0, 0, 0, 0, 0, 0xc0, 0, 0x70}, {0, 0xf0, 0, 0xf0, 0, 0xb0, 0, 0x70}, scale},
      {DType::q8_1, 2, kF16Inf, kF16Max, "sum is not finite"},
  };
  const auto add = [&](DType dtype, size_t offset, std::string_view what) {
    fields.push_back({dtype, offset, kF16Inf, kF16Max, what});
  };
  for (const DType dtype : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::q8_1, DType::q4_k,
                            DType::q5_k, DType::iq2_xxs, DType::iq2_xs, DType::iq2_s, DType::iq3_xxs, DType::iq3_s,
                            DType::iq1_s, DType::iq4_nl, DType::iq4_xs, DType::q1_0, DType::q2_0})
    add(dtype, 0, scale);
  for (const DType dtype : {DType::q4_1, DType::q5_1, DType::q4_k, DType::q5_k}) add(dtype, 2, minimum);
  add(DType::q2_k, 80, scale);
  add(DType::q2_k, 82, minimum);
  add(DType::q3_k, 108, scale);
  add(DType::q6_k, 208, scale);
  add(DType::tq1_0, 52, scale);
  add(DType::tq2_0, 64, scale);
  return fields;
}

bool has_no_faults(DType dtype) {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64 ||
         dtype == DType::nvfp4;
}

void put(std::vector<std::byte>& blocks, size_t at, const std::vector<uint8_t>& bytes) {
  std::memcpy(blocks.data() + at, bytes.data(), bytes.size());
}

// More than one of the pieces that are searched together, and a remainder.
constexpr size_t kBlocks = 2600;

TEST(FirstFault, CoversEveryType) {
  const std::vector<Field> fields = all_fields();
  for (const DTypeInfo& type : all_dtypes()) {
    const bool has_field = std::ranges::any_of(fields, [&](const Field& f) { return f.dtype == type.dtype; });
    EXPECT_NE(has_field, has_no_faults(type.dtype)) << type.name;
  }
}

TEST(FirstFault, FindsTheFirstBadBlock) {
  for (const Field& field : all_fields()) {
    const DTypeInfo& type = info(field.dtype);
    const auto block_bytes = static_cast<size_t>(type.block_bytes);
    std::vector<std::byte> blocks(kBlocks * block_bytes);
    for (const size_t bad :
         {kBlocks - 1, size_t{2048}, size_t{1023}, size_t{17}, size_t{0}}) {  // each before the previous one
      put(blocks, bad * block_bytes + field.offset, field.infinity);
      const auto fault = first_fault(field.dtype, blocks);
      ASSERT_TRUE(fault.has_value()) << type.name << " @" << field.offset;
      EXPECT_EQ(fault->block, static_cast<int64_t>(bad)) << type.name << " @" << field.offset;
      EXPECT_EQ(fault->what, field.what) << type.name << " @" << field.offset;
    }
  }
}

TEST(FirstFault, FindsNansAndNegativeInfinity) {
  for (const Field& field : all_fields()) {
    if (field.dtype == DType::mxfp4) continue;  // has only one bad scale
    const auto block_bytes = static_cast<size_t>(info(field.dtype).block_bytes);
    std::vector<std::byte> blocks(3 * block_bytes);
    for (const bool is_nan : {true, false}) {
      std::vector<uint8_t> bits = field.infinity;
      bits.back() |= is_nan ? 0 : 0x80;  // the sign
      bits.front() |= is_nan && field.dtype != DType::iq1_m ? 0x01 : 0;
      bits[1] |= is_nan && field.dtype == DType::iq1_m ? 0x10 : 0;
      put(blocks, 2 * block_bytes + field.offset, bits);
      const auto fault = first_fault(field.dtype, blocks);
      ASSERT_TRUE(fault.has_value()) << info(field.dtype).name;
      EXPECT_EQ(fault->block, 2) << info(field.dtype).name;
    }
  }
}

TEST(FirstFault, LargestFiniteNumbersAreGood) {
  for (const Field& field : all_fields()) {
    const auto block_bytes = static_cast<size_t>(info(field.dtype).block_bytes);
    std::vector<std::byte> blocks(3 * block_bytes);
    put(blocks, block_bytes + field.offset, field.largest);
    EXPECT_FALSE(first_fault(field.dtype, blocks).has_value()) << info(field.dtype).name << " @" << field.offset;
  }
}

TEST(FirstFault, OnlyScalesCount) {
  for (const Field& field : all_fields()) {
    const DTypeInfo& type = info(field.dtype);
    if (!type.is_blocked() || field.dtype == DType::iq1_m) continue;  // there every byte counts, or every word
    const auto block_bytes = static_cast<size_t>(type.block_bytes);
    std::vector<std::byte> block(block_bytes, std::byte{0xff});
    for (const Field& scale : all_fields())
      if (scale.dtype == field.dtype) put(block, scale.offset, scale.largest);
    EXPECT_FALSE(first_fault(field.dtype, block).has_value()) << type.name;
  }
}

TEST(FirstFault, TypesWithoutFaultsTakeAnyBytes) {
  const std::vector<std::byte> bytes(36 * 64, std::byte{0x7f});
  for (const DTypeInfo& type : all_dtypes()) {
    if (!has_no_faults(type.dtype)) continue;
    EXPECT_FALSE(first_fault(type.dtype, bytes).has_value()) << type.name;
  }
}

TEST(FirstFault, AgreesWithTheDecoders) {
  for (const Field& field : all_fields()) {
    const Format* format = find_format(field.dtype);
    if (format == nullptr) continue;
    const DTypeInfo& type = info(field.dtype);
    std::vector<std::byte> block(static_cast<size_t>(type.block_bytes), std::byte{0x5a});
    std::vector<float> values(static_cast<size_t>(type.block_elements));
    for (const auto* bits : {&field.infinity, &field.largest}) {
      for (const Field& scale : all_fields())
        if (scale.dtype == field.dtype) put(block, scale.offset, scale.largest);
      put(block, field.offset, *bits);
      format->dequantize_row(block.data(), type.block_elements, values.data());
      const bool is_finite = std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
      EXPECT_EQ(first_fault(field.dtype, block).has_value(), !is_finite) << type.name << " @" << field.offset;
    }
  }
}

TEST(FirstFault, GoldenBlocksAreGood) {
  const std::string directory = testing::data_path("quants");
  for (const DTypeInfo& type : all_dtypes()) {
    const std::string path = directory + "/" + std::string(type.name) + ".q";
    if (!std::filesystem::exists(path)) continue;
    const std::string blocks = testing::read_all(path);
    EXPECT_GT(blocks.size(), 0u) << type.name;
    EXPECT_FALSE(first_fault(type.dtype, std::as_bytes(std::span(blocks))).has_value()) << type.name;
  }
}

TEST(FirstFault, Iq1MScaleIsAssembledFromFourNibbles) {
  std::vector<std::byte> block(56, std::byte{0});
  for (int bits = 0; bits < 1 << 16; ++bits) {
    for (size_t word = 0; word < 4; ++word)  // the lower bits are scales of the sub-blocks
      block[49 + 2 * word] = static_cast<std::byte>((bits >> (4 * word) & 15) << 4 | (bits & 15));
    ASSERT_EQ(first_fault(DType::iq1_m, block).has_value(), (bits & 0x7c00) == 0x7c00) << bits;
  }
}

TEST(FirstFault, MxFp4ValuesThatOverflowAreFaults) {
  std::vector<std::byte> block(17, std::byte{0});
  const auto with = [&](int exponent, int code) {
    block[0] = static_cast<std::byte>(exponent);
    block[9] = static_cast<std::byte>(code);
    return first_fault(DType::mxfp4, block);
  };
  EXPECT_FALSE(with(252, 0x77));  // 12 * 2^124
  EXPECT_FALSE(with(253, 0x55));  // 6 * 2^125
  ASSERT_TRUE(with(253, 0x06));   // 8 * 2^125 = 2^128
  EXPECT_STREQ(with(253, 0x06)->what, "value is not finite");
  EXPECT_TRUE(with(254, 0xc0));  // -4 * 2^126 in the upper half
  EXPECT_FALSE(with(254, 0x30));
  EXPECT_STREQ(with(255, 0)->what, "scale is not finite");
}

TEST(FirstFault, NothingAndPartsOfBlocksAreGood) {
  EXPECT_FALSE(first_fault(DType::f32, {}).has_value());
  const std::vector<std::byte> bytes(17, std::byte{0xff});
  EXPECT_FALSE(first_fault(DType::q4_0, bytes).has_value());
}

}  // namespace
}  // namespace tessera::quant
