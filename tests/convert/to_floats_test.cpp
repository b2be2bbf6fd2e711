// Elements of checkpoints as floats.
#include "tessera/convert/source/to_floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tessera/convert/source/float8.h"

namespace tessera::convert {
namespace {

// The definition: sign, exponent with its bias, and mantissa; exponent 0 has no hidden one.
float float8_of(uint32_t bits, int n_mantissa, int bias) {
  const auto exponent = static_cast<int>((bits & 0x7f) >> n_mantissa);
  const double mantissa = std::ldexp(static_cast<double>(bits & ((1u << n_mantissa) - 1)), -n_mantissa);
  const double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias);
  return static_cast<float>((bits & 0x80) != 0 ? -value : value);
}

TEST(Float8, AllValuesAreThoseOfTheDefinition) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    SCOPED_TRACE(bits);
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(byte)));
    } else {
      EXPECT_EQ(f8_e4m3_to_f32(byte), float8_of(bits, 3, 7));
    }
    const float e5m2 = f8_e5m2_to_f32(byte);
    if ((bits & 0x7f) > 0x7c) {
      EXPECT_TRUE(std::isnan(e5m2));
    } else if ((bits & 0x7f) == 0x7c) {
      EXPECT_EQ(e5m2, (bits & 0x80) != 0 ? -INFINITY : INFINITY);
    } else {
      EXPECT_EQ(e5m2, float8_of(bits, 2, 15));
    }
    if (bits == 255) {
      EXPECT_TRUE(std::isnan(f8_e8m0_to_f32(byte)));
    } else {
      EXPECT_EQ(f8_e8m0_to_f32(byte), std::ldexp(1.0f, static_cast<int>(bits) - 127));
    }
  }
  EXPECT_EQ(f8_e4m3_to_f32(0x7e), 448.0f);
  EXPECT_EQ(f8_e5m2_to_f32(0x7b), 57344.0f);
  EXPECT_TRUE(std::signbit(f8_e4m3_to_f32(0x80)));
}

template <class Stored>
std::vector<float> floats_of(ElementType type, const std::vector<Stored>& stored) {
  std::vector<float> values(stored.size());
  to_floats(type, std::as_bytes(std::span(stored)), values);
  return values;
}

TEST(ToFloats, EachTypeHasItsValues) {
  EXPECT_EQ(floats_of<double>(ElementType::f64, {0.1, -2}), (std::vector<float>{0.1f, -2}));
  EXPECT_EQ(floats_of<float>(ElementType::f32, {0.1f, -2}), (std::vector<float>{0.1f, -2}));
  EXPECT_EQ(floats_of<uint16_t>(ElementType::f16, {0x3c00, 0xc000}), (std::vector<float>{1, -2}));
  EXPECT_EQ(floats_of<uint16_t>(ElementType::bf16, {0x3f80, 0xc000}), (std::vector<float>{1, -2}));
  EXPECT_EQ(floats_of<uint8_t>(ElementType::f8_e4m3, {0x38, 0xc0}), (std::vector<float>{1, -2}));
  EXPECT_EQ(floats_of<uint8_t>(ElementType::f8_e5m2, {0x3c, 0xc0}), (std::vector<float>{1, -2}));
  EXPECT_EQ(floats_of<uint8_t>(ElementType::f8_e8m0, {127, 130}), (std::vector<float>{1, 8}));
  EXPECT_EQ(floats_of<int64_t>(ElementType::i64, {-3, (int64_t{1} << 24) + 1}), (std::vector<float>{-3, 16777216}));
  EXPECT_EQ(floats_of<int32_t>(ElementType::i32, {-3, 5}), (std::vector<float>{-3, 5}));
  EXPECT_EQ(floats_of<int16_t>(ElementType::i16, {-3, 5}), (std::vector<float>{-3, 5}));
  EXPECT_EQ(floats_of<int8_t>(ElementType::i8, {-3, 5}), (std::vector<float>{-3, 5}));
  EXPECT_EQ(floats_of<uint8_t>(ElementType::u8, {253, 5}), (std::vector<float>{253, 5}));
  EXPECT_EQ(floats_of<uint8_t>(ElementType::boolean, {0, 7}), (std::vector<float>{0, 1}));
}

// A block of q8_0: the scale 2 as a float of 16 bits, then 32 integers.
TEST(ToFloats, BlocksHaveSeveralValues) {
  std::vector<std::byte> block(34);
  block[1] = std::byte{0x40};
  for (size_t i = 0; i < 32; ++i) block[i + 2] = static_cast<std::byte>(i);
  std::vector<float> values(32);
  to_floats(ElementType::q8_0, block, values);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], static_cast<float>(2 * i));
}

TEST(ElementTypes, Blocks) {
  EXPECT_EQ(element_values(ElementType::bf16), 1);
  EXPECT_EQ(element_values(ElementType::nvfp4), 64);
  EXPECT_EQ(element_bytes(ElementType::nvfp4), 36u);
  EXPECT_EQ(element_name(ElementType::q4_k), "Q4_K");
  EXPECT_EQ(block_format(ElementType::q4_k), DType::q4_k);
  EXPECT_EQ(block_format(ElementType::bf16), std::nullopt);
  EXPECT_EQ(find_element_type("Q4_K"), std::nullopt);  // safetensors has no blocks
}

TEST(ElementTypes, NamesAndBytes) {
  EXPECT_EQ(find_element_type("BF16"), ElementType::bf16);
  EXPECT_EQ(find_element_type(""), std::nullopt);
  EXPECT_EQ(find_element_type("bf16"), std::nullopt);
  EXPECT_EQ(find_torch_storage("CharStorage"), ElementType::i8);
  EXPECT_EQ(find_torch_storage("UntypedStorage"), std::nullopt);
  EXPECT_EQ(find_torch_storage(""), std::nullopt);
  EXPECT_EQ(element_name(ElementType::f8_e5m2), "F8_E5M2");
  EXPECT_EQ(element_bytes(ElementType::i64), 8u);
  EXPECT_EQ(element_bytes(ElementType::boolean), 1u);
}

}  // namespace
}  // namespace tessera::convert
