// Typed members of objects: values, absence, and refusals with the full path.
#include "tessera/server/json/field_reader.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::server {
namespace {

template <class T>
std::string refusal_text(const FieldResult<T>& result) {
  EXPECT_FALSE(result);
  return result ? "read" : result.error().message;
}

TEST(FieldReader, ReadsMembersOfEachType) {
  const Json json = {{"i", -3},     {"x", 0.5},        {"b", true},      {"t", "é"},
                     {"l", {1, 2}}, {"o", {{"k", 1}}}, {"s", {"a", "b"}}};
  const FieldReader reader(json);
  EXPECT_EQ(reader.integer("i", -5, 5).value(), -3);
  EXPECT_EQ(reader.number("x", 0, 1).value(), 0.5);
  EXPECT_EQ(reader.number("i", -5, 5).value(), -3.0);
  EXPECT_EQ(reader.boolean("b").value(), true);
  EXPECT_EQ(reader.text("t").value(), "é");
  EXPECT_EQ(reader.required_text("t").value(), "é");
  EXPECT_EQ((*reader.list("l"))->size(), 2u);
  EXPECT_EQ((*reader.required_list("l"))->size(), 2u);
  EXPECT_EQ((**reader.object("o")).integer("k", 0, 9).value(), 1);
  EXPECT_EQ(reader.texts("s", 2, 1).value(), (std::vector<std::string>{"a", "b"}));
  const std::string_view choices[] = {"a", "é"};
  EXPECT_EQ(reader.choice("t", choices).value(), 1u);
}

TEST(FieldReader, BoundsBelongToTheRange) {
  const Json json = {{"low", 0}, {"high", 1}, {"list", {1, 2}}, {"texts", {"ab", "c"}}};
  const FieldReader reader(json);
  EXPECT_EQ(reader.number("low", 0, 1).value(), 0);
  EXPECT_EQ(reader.number("high", 0, 1).value(), 1);
  EXPECT_EQ(reader.integer("low", 0, 1).value(), 0);
  EXPECT_EQ(reader.integer("high", 0, 1).value(), 1);
  EXPECT_FALSE(reader.number("high", 0, 0.5));
  EXPECT_FALSE(reader.number("low", 0.5, 1));
  EXPECT_TRUE(reader.list("list", 2));
  EXPECT_FALSE(reader.list("list", 1));
  EXPECT_TRUE(reader.texts("texts", 2, 2));
  EXPECT_FALSE(reader.texts("texts", 1, 2));
  EXPECT_FALSE(reader.texts("texts", 2, 1));
  EXPECT_EQ(range_text(0, 1e14), "0 to 100000000000000");
}

TEST(FieldReader, TheLargestIntegersAreExact) {
  const auto read = [](const Json& value) {
    return read_integer(value, {.name = "i"}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  };
  EXPECT_EQ(read(Json(uint64_t{9223372036854775807u})).value(), 9223372036854775807);
  EXPECT_FALSE(read(Json(uint64_t{9223372036854775808u})));
  EXPECT_EQ(read(Json(9007199254740992.0)).value(), 9007199254740992);
  EXPECT_EQ(read(Json(-9007199254740992.0)).value(), -9007199254740992);
  EXPECT_FALSE(read(Json(9007199254740994.0)));
  EXPECT_FALSE(read(Json(0.5)));
}

TEST(FieldReader, ATextIsReadAndKept) {
  auto parsed = FieldReader::parse(std::string(R"({"t":"a text that no small buffer holds","o":{"k":1}})"));
  ASSERT_TRUE(parsed);
  const FieldReader reader = std::move(*parsed);
  EXPECT_EQ(reader.text("t").value(), "a text that no small buffer holds");
  EXPECT_EQ(reader.json()["o"]["k"], 1);
  EXPECT_EQ(refusal_text(FieldReader::parse("[1]")), "The body: value a list of 1, want an object");
  EXPECT_EQ(FieldReader::parse("{").error().status, 400);
}

TEST(FieldReader, NullIsAbsent) {
  const Json json = {{"n", nullptr}};
  const FieldReader reader(json);
  for (const char* name : {"n", "absent"}) {
    EXPECT_EQ(reader.find(name), nullptr);
    EXPECT_EQ(reader.integer(name, 0, 1).value(), std::nullopt);
    EXPECT_EQ(reader.number(name, 0, 1).value(), std::nullopt);
    EXPECT_EQ(reader.boolean(name).value(), std::nullopt);
    EXPECT_EQ(reader.text(name).value(), std::nullopt);
    EXPECT_EQ(reader.texts(name, 1, 1).value(), std::nullopt);
    EXPECT_EQ(reader.choice(name, {}).value(), std::nullopt);
    EXPECT_EQ(reader.list(name).value(), nullptr);
    EXPECT_FALSE(reader.object(name).value().has_value());
    EXPECT_FALSE(reader.required_text(name));
    EXPECT_FALSE(reader.required_list(name));
  }
}

TEST(FieldReader, RefusalsHaveTheFullPath) {
  const Json json = {{"content", 5}, {"list", "x"}, {"texts", {"a", 1}}, {"object", Json::array()}};
  const FieldReader reader(json, "messages[3]");
  EXPECT_EQ(refusal_text(reader.text("content")), "Field 'messages[3].content': value 5, want a text");
  EXPECT_EQ(reader.text("content").error().param, "messages[3].content");
  EXPECT_EQ(refusal_text(reader.list("list")), "Field 'messages[3].list': value \"x\", want a list");
  EXPECT_EQ(refusal_text(reader.texts("texts", 9, 9)), "Field 'messages[3].texts[1]': value 1, want a text");
  EXPECT_EQ(refusal_text(reader.object("object")), "Field 'messages[3].object': value a list of 0, want an object");
  EXPECT_EQ(refusal_text(reader.required_text("role")), "Field 'messages[3].role': absent, want a text");
  EXPECT_EQ(refusal_text(reader.required_list("parts")), "Field 'messages[3].parts': absent, want a list");
  const std::string_view choices[] = {"auto", "none"};
  EXPECT_EQ(refusal_text(reader.choice("list", choices)),
            "Field 'messages[3].list': value \"x\", want one of auto, none");
  EXPECT_EQ(refusal_text(FieldReader::create(Json(7), "tools[0]")), "Field 'tools[0]': value 7, want an object");
}

TEST(FieldReader, BoundsAreChecked) {
  const Json json = {{"i", 6}, {"t", "abc"}, {"l", {1, 2, 3}}, {"s", {"abc"}}};
  const FieldReader reader(json);
  EXPECT_EQ(refusal_text(reader.integer("i", 0, 5)), "Field 'i': value 6, want 0 to 5");
  EXPECT_EQ(refusal_text(reader.number("i", 0, 5.5)), "Field 'i': value 6, want 0 to 5.5");
  EXPECT_EQ(refusal_text(reader.text("t", 2)), "Field 't': a text of 3 bytes, want at most 2");
  EXPECT_EQ(refusal_text(reader.list("l", 2)), "Field 'l': a list of 3, want at most 2");
  EXPECT_EQ(refusal_text(reader.required_list("l", 2)), "Field 'l': a list of 3, want at most 2");
  EXPECT_EQ(refusal_text(reader.texts("s", 1, 2)), "Field 's[0]': a text of 3 bytes, want at most 2");
  EXPECT_EQ(refusal_text(reader.texts("l", 2, 2)), "Field 'l': a list of 3, want at most 2");
}

TEST(FieldReader, IntegersAreExact) {
  const auto integer = [](const Json& value) { return read_integer(value, {.name = "x"}, INT64_MIN, INT64_MAX); };
  EXPECT_EQ(integer(INT64_MIN), INT64_MIN);
  EXPECT_EQ(integer(INT64_MAX), INT64_MAX);
  EXPECT_EQ(integer(1.0), 1);
  EXPECT_FALSE(integer(static_cast<uint64_t>(INT64_MAX) + 1));
  EXPECT_FALSE(integer(9223372036854775808.0));
  EXPECT_FALSE(integer(1.5));
  EXPECT_FALSE(integer(true));
  EXPECT_FALSE(integer("1"));
}

TEST(FieldReader, LongValuesAreCutInMessages) {
  const Json json = {{"x", std::string(100000, 'y')}};
  EXPECT_LT(refusal_text(FieldReader(json).integer("x", 0, 1)).size(), 200u);
}

TEST(FieldReader, FindsNamesAmongMany) {
  Json json = Json::object();
  for (int i = 0; i < 100; ++i) json["key" + std::to_string(i)] = i;
  json["nothing"] = nullptr;
  const FieldReader reader(json);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(reader.integer("key" + std::to_string(i), 0, 99).value(), i);
  EXPECT_EQ(reader.find("nothing"), nullptr);
  EXPECT_EQ(reader.find("key"), nullptr);
  EXPECT_EQ(reader.find("zzz"), nullptr);
}

TEST(FieldReader, RangesInWords) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(range_text(0, 1), "0 to 1");
  EXPECT_EQ(range_text(-kInfinity, 100), "at most 100");
  EXPECT_EQ(range_text(0.5, kInfinity), "at least 0.5");
}

}  // namespace
}  // namespace tessera::server
