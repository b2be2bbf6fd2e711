// Writing of JSON: what is written reads back as it was, for any bytes and numbers.
#include "tessera/server/json/writer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tessera/json/reader.h"
#include "tessera/text/utf8.h"

namespace tessera::server {
namespace {

template <class T>
std::string written(const T& value) {
  std::string out;
  JsonWriter(out).value(value);
  return out;
}

TEST(JsonWriter, PlacesCommas) {
  std::string out;
  JsonWriter writer(out);
  writer.begin_object().member("a", 1).key("b").begin_array().value(1).begin_array().end_array().begin_object();
  writer.end_object().value("x").end_array().member("c", nullptr).key("d").raw("[0]").end_object();
  EXPECT_EQ(out, R"({"a":1,"b":[1,[],{},"x"],"c":null,"d":[0]})");
}

TEST(JsonWriter, EscapesTexts) {
  EXPECT_EQ(written("a\"b\\c/\n\r\t\b"), R"("a\"b\\c/\n\r\t\u0008")");
  EXPECT_EQ(written(std::string("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\x7f\"");
  EXPECT_EQ(written("é😀"), "\"é😀\"");
}

TEST(JsonWriter, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(written("a\xFF"
                    "b"),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(written("\xE2\x82"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(written("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(JsonWriter, RandomBytesReadBackAsValidUtf8) {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 3 == 0 ? random() : random() % 128);
    std::string out;
    JsonWriter writer(out);
    writer.begin_object().member(bytes, bytes).end_object();
    const auto json = nlohmann::json::parse(out, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << out;
    const std::string valid = text::to_valid_utf8(bytes);
    ASSERT_TRUE(json.contains(valid)) << out;
    EXPECT_EQ(json[valid].get<std::string>(), valid);
  }
}

TEST(JsonWriter, WritesIntegersOfAllTypes) {
  EXPECT_EQ(written(INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(written(UINT64_MAX), "18446744073709551615");
  EXPECT_EQ(written(int8_t{-5}), "-5");
  EXPECT_EQ(written(uint8_t{200}), "200");
  EXPECT_EQ(written(true), "true");
  EXPECT_EQ(written(false), "false");
}

TEST(JsonWriter, WritesShortestNumbers) {
  EXPECT_EQ(written(0.8f), "0.8");
  EXPECT_EQ(written(0.95f), "0.95");
  EXPECT_EQ(written(1.0f), "1");
  EXPECT_EQ(written(0.1), "0.1");
  EXPECT_EQ(written(1e300), "1e+300");
  EXPECT_EQ(written(-0.0), "-0.0");
  EXPECT_EQ(written(-0.0f), "-0.0");
  EXPECT_EQ(json_text(*read_json("-0E24")), "-0.0");
}

TEST(JsonWriter, RandomNumbersReadBackExactly) {
  std::mt19937_64 random(11);
  int n_finite = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto real = std::bit_cast<double>(random());
    const auto single = std::bit_cast<float>(static_cast<uint32_t>(random()));
    for (const std::string& text : {written(real), written(single)})
      ASSERT_FALSE(nlohmann::json::parse(text, nullptr, false).is_discarded()) << text;
    if (!std::isfinite(real) || !std::isfinite(single)) continue;
    ++n_finite;
    EXPECT_EQ(nlohmann::json::parse(written(real)).get<double>(), real);
    EXPECT_EQ(static_cast<float>(nlohmann::json::parse(written(single)).get<double>()), single);
  }
  EXPECT_GT(n_finite, 10000);
}

TEST(JsonWriter, NumbersThatAreNotFiniteAreNull) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {kInfinity, -kInfinity, std::nan("")}) {
    EXPECT_EQ(written(value), "null");
    EXPECT_EQ(written(static_cast<float>(value)), "null");
  }
}

TEST(JsonWriter, LogprobsAreNumbers) {
  std::string out;
  JsonWriter(out).begin_array().logprob(-std::numeric_limits<double>::infinity()).logprob(-0.5).logprob(0).end_array();
  EXPECT_EQ(out, "[-3.4028235e+38,-0.5,0]");
}

TEST(JsonWriter, WritesTreesAsTheyWereRead) {
  for (const std::string text : {R"({"b":[1,-2,{"x":[]},[[{}]]],"a":{"c":null,"d":true},"t":"\n\"é"})", "[]", "3",
                                 "\"\"", "[0.5,1e+300,18446744073709551615,-9223372036854775808]"}) {
    const auto json = read_json(text);
    ASSERT_TRUE(json) << text;
    EXPECT_EQ(json_text(*json), text);
  }
}

}  // namespace
}  // namespace tessera::server
