#include "tessera/gguf/value.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

// The values of the small file, by key.
class GgufValueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    bytes_ = testing::small_gguf();
    ASSERT_OK_AND_ASSIGN(file_, testing::parse(bytes_));
  }
  const GgufValue& value(std::string_view key) const { return *file_->metadata().find(key); }

  std::string bytes_;
  std::unique_ptr<GgufFile> file_;
};

TEST_F(GgufValueTest, EveryScalarTypeIsRead) {
  EXPECT_EQ(*value("u8").as<uint8_t>(), 200);
  EXPECT_EQ(*value("i8").as<int8_t>(), -100);
  EXPECT_EQ(*value("u16").as<uint16_t>(), 60000);
  EXPECT_EQ(*value("i16").as<int16_t>(), -30000);
  EXPECT_EQ(*value("u32").as<uint32_t>(), 4000000000u);
  EXPECT_EQ(*value("i32").as<int32_t>(), -2000000000);
  EXPECT_EQ(*value("u64").as<uint64_t>(), uint64_t{1} << 63);
  EXPECT_EQ(*value("i64").as<int64_t>(), -5);
  EXPECT_EQ(*value("f32").as<float>(), 1.5f);
  EXPECT_EQ(*value("f64").as<double>(), 0.1);
  EXPECT_TRUE(*value("bool").as<bool>());
  EXPECT_EQ(*value("general.architecture").as<std::string_view>(), "llama");
}

TEST_F(GgufValueTest, IntegersConvertToAnyTypeThatHoldsThem) {
  EXPECT_EQ(*value("u8").as<int64_t>(), 200);
  EXPECT_EQ(*value("u16").as<uint32_t>(), 60000u);
  EXPECT_EQ(*value("i64").as<int8_t>(), -5);
  EXPECT_EQ(*value("u32").as<uint64_t>(), 4000000000u);
}

TEST_F(GgufValueTest, IntegersOutOfRangeAreRefused) {
  EXPECT_ERROR(value("u8").as<int8_t>(), "u8 200 does not fit i8");
  EXPECT_ERROR(value("i8").as<uint32_t>(), "i8 -100 does not fit u32");
  EXPECT_ERROR(value("u64").as<int64_t>(), "u64 9223372036854775808 does not fit i64");
  EXPECT_EQ(value("i64").as<uint64_t>().error().code(), ErrorCode::limit);
}

TEST_F(GgufValueTest, OtherTypesDoNotConvert) {
  EXPECT_ERROR(value("f32").as<uint32_t>(), "got 1.5 (f32), want u32");
  EXPECT_ERROR(value("u8").as<bool>(), "got 200 (u8), want bool");
  EXPECT_ERROR(value("bool").as<uint8_t>(), "got true (bool), want u8");
  EXPECT_ERROR(value("u8").as<float>(), "got 200 (u8), want f32");
  EXPECT_ERROR(value("u8").as<std::string_view>(), "got 200 (u8), want string");
  EXPECT_ERROR(value("general.architecture").as<double>(), "got \"llama\" (string), want f64");
  EXPECT_ERROR(value("ints").as<int32_t>(), "got [7, -8, 9] (array of 3 i32), want i32");
  EXPECT_ERROR(value("u8").as_vector<int32_t>(), "want array");
}

TEST_F(GgufValueTest, FloatsConvertToEachOther) {
  EXPECT_EQ(*value("f32").as<double>(), 1.5);
  EXPECT_EQ(*value("f64").as<float>(), 0.1f);
}

TEST_F(GgufValueTest, ArraysAreRead) {
  EXPECT_EQ(*value("ints").as_vector<int32_t>(), (std::vector<int32_t>{7, -8, 9}));
  EXPECT_EQ(*value("ints").as_vector<int64_t>(), (std::vector<int64_t>{7, -8, 9}));
  EXPECT_EQ(*value("floats").as_vector<float>(), (std::vector<float>{0.5f, -2.0f}));
  EXPECT_EQ(*value("bools").as_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(*value("strings").as_vector<std::string_view>(), (std::vector<std::string_view>{"one", "", "three"}));
}

TEST_F(GgufValueTest, ArrayErrorsNameTheElement) {
  EXPECT_ERROR(value("ints").as_vector<uint32_t>(), "element 1: i32 -8 does not fit u32");
}

TEST_F(GgufValueTest, StringsAreReachedInAnyOrder) {
  const GgufValue& strings = value("strings");
  EXPECT_EQ(strings.size(), 3u);
  EXPECT_EQ(strings.element_type(), GgufType::string);
  EXPECT_EQ(*strings[2].as<std::string_view>(), "three");
  EXPECT_EQ(*strings[1].as<std::string_view>(), "");
  EXPECT_EQ(*strings[0].as<std::string_view>(), "one");
}

TEST_F(GgufValueTest, NestedArraysAreRead) {
  const GgufValue& nested = value("nested");
  ASSERT_EQ(nested.size(), 2u);
  EXPECT_EQ(*nested[0].as_vector<std::string_view>(), (std::vector<std::string_view>{"a", "bc"}));
  EXPECT_EQ(*nested[1].as_vector<int32_t>(), (std::vector<int32_t>{4}));
  EXPECT_EQ(to_string(nested), "[array of 2 string, array of 1 i32]");
}

TEST_F(GgufValueTest, TextIsOneShortLine) {
  EXPECT_EQ(to_string(value("ints"), 2), "[7, -8, ...]");
  EXPECT_EQ(to_string(value("bool")), "true");
  EXPECT_EQ(to_string(value("f64")), "0.1");
  const std::string text = "a\nb";
  EXPECT_EQ(to_string(GgufValue::scalar(GgufType::string, testing::bytes_of(text))), "\"a\\nb\"");
}

TEST(GgufType, IdsAreThoseOfTheFormat) {
  EXPECT_EQ(gguf_type_from_id(4), GgufType::u32);
  EXPECT_EQ(gguf_type_from_id(9), GgufType::array);
  EXPECT_EQ(gguf_type_from_id(12), GgufType::f64);
  EXPECT_EQ(gguf_type_from_id(13), std::nullopt);
  EXPECT_EQ(to_string(GgufType::boolean), "bool");
  EXPECT_EQ(scalar_bytes(GgufType::u16), 2u);
}

}  // namespace
}  // namespace tessera
