// Reading of JSON: the tree, every refusal with its offset, and bounds of memory and time under hostile texts.
#include "tessera/json/reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/json/key_table.h"

namespace tessera {
namespace {

std::string repeated_text(std::string_view unit, size_t n) {
  std::string out;
  out.reserve(unit.size() * n);
  for (size_t i = 0; i < n; ++i) out += unit;
  return out;
}

/// The message of a refused text; "read" if it is accepted.
std::string refusal_of_json(std::string_view text, const JsonLimits& limits = {}) {
  const auto read = read_json(text, limits);
  if (read) return "read";
  const bool is_limit = read.error().message().starts_with("JSON ");
  EXPECT_EQ(read.error().code(), is_limit ? ErrorCode::limit : ErrorCode::format);
  return read.error().message();
}

void expect_refused_at(std::string_view text, size_t offset) {
  const std::string message = refusal_of_json(text);
  EXPECT_TRUE(message.starts_with("not JSON: byte " + std::to_string(offset) + ": ")) << text << ": " << message;
}

TEST(JsonReader, KeepsValuesAndTheOrderOfKeys) {
  const char* text = R"({"z":[1,-2,2.5,true,false,null,"a\u00e9\ud83d\ude00\n"],)"
                     R"("a":{"y":{},"b":[]},"m":18446744073709551615})";
  const auto json = read_json(text);
  ASSERT_TRUE(json) << json.error().message();
  EXPECT_EQ(json->dump(), R"({"z":[1,-2,2.5,true,false,null,"aé😀\n"],)"
                          R"("a":{"y":{},"b":[]},"m":18446744073709551615})");
}

TEST(JsonReader, ReadsScalarsAndWhiteSpace) {
  for (const char* text : {"1", " \t\r\n null ", "\"x\"", "[ ]", "{ }", "-0", "1e-999", "[1 , 2]"})
    EXPECT_EQ(refusal_of_json(text), "read") << text;
}

TEST(JsonReader, RefusesSyntaxErrorsAtTheirByte) {
  expect_refused_at("", 0);
  expect_refused_at("{:", 1);
  expect_refused_at("[1,]", 3);
  expect_refused_at("[1 2]", 3);
  expect_refused_at("{\"a\":1", 6);
  expect_refused_at("{\"a\":1]", 6);
  expect_refused_at("{a:1}", 1);
  expect_refused_at("[1] x", 4);
  expect_refused_at("NaN", 0);
  expect_refused_at("[Infinity]", 1);
  expect_refused_at("// a\n1", 0);
  expect_refused_at("[01]", 2);
  expect_refused_at("\"\n\"", 1);
  expect_refused_at("\"abc", 4);
  expect_refused_at("   ", 3);
}

TEST(JsonReader, RefusesAZeroByteAlsoAtTheEnd) {
  expect_refused_at(std::string_view("{}\0", 3), 2);
  expect_refused_at(std::string_view("{}\0{", 4), 2);
  expect_refused_at(std::string_view("\"\0\"", 3), 1);
}

TEST(JsonReader, RefusesNumbersOutOfDoubleAtTheirFirstByte) {
  expect_refused_at("[1,1e999]", 3);
  expect_refused_at("{\"a\":-1e999}", 5);
  expect_refused_at("1e400", 0);
}

TEST(JsonReader, RefusesBytesThatAreNotUtf8) {
  expect_refused_at("\"\x80\"", 1);
  expect_refused_at("\"a\xC3\"", 3);         // the next byte is no continuation
  expect_refused_at("\"\xED\xA0\x80\"", 2);  // a surrogate
  expect_refused_at("\"\xC0\xAF\"", 1);      // overlong
  expect_refused_at("{\"\xFF\":1}", 2);
}

TEST(JsonReader, RefusesLoneSurrogates) {
  expect_refused_at(R"("\ud800")", 7);
  expect_refused_at(R"("\udc00")", 6);
  expect_refused_at(R"("\ud800\u0041")", 12);
}

TEST(JsonReader, MessagesNeverQuoteTheText) {
  const std::string message = refusal_of_json("[\"secret\x01\"]");
  EXPECT_EQ(message.find("secret"), std::string::npos) << message;
  EXPECT_LT(message.size(), 200u);
}

TEST(JsonReader, RefusesEqualKeysAtTheSecondOne) {
  expect_refused_at(R"({"a":1,"a":2})", 7);
  expect_refused_at(R"({"x":{"a":1,"b":2,"\u0061":3}})", 18);
  expect_refused_at(R"({"\"":1,"\"":2})", 8);
  EXPECT_EQ(refusal_of_json(R"({"a":{"a":1},"b":{"a":1}})"), "read");
  EXPECT_NE(refusal_of_json(R"({"top_k":1,"top_k":2})").find("second key \"top_k\""), std::string::npos);
}

TEST(JsonReader, FindsEqualKeysAmongMany) {
  for (const size_t n : {15, 16, 17, 18, 1000}) {
    std::string text = "{";
    for (size_t i = 0; i < n; ++i) text += "\"" + std::to_string(i) + "\":0,";
    const size_t offset = text.size();
    EXPECT_EQ(refusal_of_json(text + "\"x\":0}"), "read") << n;
    expect_refused_at(text + "\"" + std::to_string(n / 2) + "\":0}", offset);
  }
}

TEST(JsonReader, ReadsAMillionKeysInLinearTime) {
  // With a search of all keys for each, this takes many minutes.
  const JsonLimits limits{.tree_bytes = size_t{1} << 30};
  std::string text = "{";
  for (size_t i = 0; i < 1000000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  EXPECT_EQ(refusal_of_json(text + "\"x\":0}", limits), "read");
  EXPECT_NE(refusal_of_json(text + "\"999999\":0}", limits).find("second key"), std::string::npos);
}

TEST(JsonReader, BoundsTheDepth) {
  const auto nested = [](size_t n) { return repeated_text("[", n) + repeated_text("]", n); };
  EXPECT_EQ(refusal_of_json(nested(128)), "read");
  EXPECT_EQ(refusal_of_json(nested(129)), "JSON is nested too deeply: more than 128 levels at byte 128");
  EXPECT_NE(refusal_of_json(nested(200000)).find("at byte 128"), std::string::npos);
  EXPECT_NE(refusal_of_json(repeated_text("{\"a\":", 200000)).find("at byte 640"), std::string::npos);
}

TEST(JsonReader, BracketsInsideStringsAreNoDepth) {
  EXPECT_EQ(refusal_of_json("[\"" + repeated_text("[{\\\"\\\\", 1000) + "\"]"), "read");
}

TEST(JsonReader, BoundsTheNumberOfValues) {
  const JsonLimits limits{.max_values = 5};
  EXPECT_EQ(refusal_of_json(R"([1,{"a":2},"x"])", limits), "read");
  EXPECT_EQ(refusal_of_json(R"([1,{"a":2},"x",[]])", limits), "JSON has too many values: more than 5 at byte 15");
}

TEST(JsonReader, ReadsFourMillionIdsAndNoMore) {
  const size_t n = (size_t{1} << 22) - 1;  // and the list
  const std::string text = "[" + repeated_text("12345,", n - 1);
  const auto json = read_json(text + "12345]");
  ASSERT_TRUE(json) << json.error().message();
  EXPECT_EQ(json->size(), n);
  // Allocated once, by the measured size.
  EXPECT_EQ(json->get_ref<const Json::array_t&>().capacity(), n);
  EXPECT_NE(refusal_of_json(text + "1,1]").find("too many values: more than 4194304"), std::string::npos);
}

TEST(JsonReader, BoundsTheKeyBytes) {
  const JsonLimits limits{.max_key_bytes = 4};
  EXPECT_EQ(refusal_of_json(R"({"abcd":1})", limits), "read");
  EXPECT_EQ(refusal_of_json(R"({"x":1,"abcde":1})", limits), "not JSON: byte 7: a key of 5 bytes, limit 4");
  expect_refused_at("{\"" + std::string(65537, 'k') + "\":1}", 1);
}

TEST(JsonReader, RefusesTreesManyTimesLargerThanTheText) {
  for (const char* unit : {"[],", "{},", "\"\",", "[[]],", "{\"\":[]},"}) {
    const std::string text = "[" + repeated_text(unit, 1000000) + "0]";
    EXPECT_NE(refusal_of_json(text).find("JSON needs too much memory"), std::string::npos) << unit;
  }
}

TEST(JsonReader, AcceptsDenseTreesOfUsualSize) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},)";
  EXPECT_EQ(refusal_of_json("[" + repeated_text(schema, (size_t{1} << 20) / schema.size()) + "0]"), "read");
}

TEST(JsonReader, ReadsLargeStrings) {
  const std::string large(1000000, 'x');
  const auto json = read_json("[\"" + large + "\",\"" + large + "\",1]");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)[0].get_ref<const std::string&>(), large);
  EXPECT_EQ((*json)[1].get_ref<const std::string&>(), large);
}

TEST(SecretHash, DependsOnEveryByteAndTheLength) {
  const std::string text = "0123456789abcdefghij";
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] ^= 1;
    EXPECT_NE(secret_hash(other), secret_hash(text)) << i;
    EXPECT_NE(secret_hash(text.substr(0, i)), secret_hash(text)) << i;
  }
  const std::string zeros(9, '\0');
  EXPECT_NE(secret_hash(zeros.substr(0, 7)), secret_hash(zeros.substr(0, 8)));
  EXPECT_EQ(secret_hash(std::string(text)), secret_hash(text));
}

}  // namespace
}  // namespace tessera
