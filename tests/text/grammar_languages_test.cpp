// Languages that grammars are made of: regular expressions, numbers with bounds, and JSON Schemas.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/text/grammar/matcher.h"
#include "tessera/text/grammar/number_language.h"
#include "tests/text/grammar_support.h"

namespace tessera::text::grammar {
namespace {

using testing::error_of;

bool accepts(const GrammarResult& grammar, std::string_view text) {
  if (!grammar) {
    ADD_FAILURE() << grammar.error().text();
    return false;
  }
  Matcher matcher(*grammar);
  return matcher.accept(text) == text.size() && matcher.is_complete();
}

struct Texts {
  std::string source;
  std::vector<std::string> accepted, refused;
};

void expect_verdicts(const GrammarResult& grammar, const Texts& texts) {
  for (const std::string& text : texts.accepted) EXPECT_TRUE(accepts(grammar, text)) << texts.source << " " << text;
  for (const std::string& text : texts.refused) EXPECT_FALSE(accepts(grammar, text)) << texts.source << " " << text;
}

TEST(GrammarRegex, MatchesTheWholeText) {
  const Texts cases[] = {
      {"a|bc", {"a", "bc"}, {"", "ab", "abc"}},
      {"a{2,3}?b", {"aab", "aaab"}, {"ab", "aaaab"}},
      {"[^\\W\\d]+", {"abc_"}, {"a1", "-"}},
      {"(?=.*\\d)[a-z\\d]+", {"a1", "1"}, {"a", "1-"}},
      {"(?!foo)\\w+", {"bar", "fo"}, {"foo", "foobar"}},
      {"(?<year>\\d{2})-(?:0)", {"12-0"}, {"1-0", "12-"}},
      {"\\bfoo\\b.*", {"foo", "foo bar"}, {"foobar", " foo"}},
      {"fo\\Bo", {"foo"}, {"fo"}},
      {"a(?:b(?=c)|d)?c?", {"a", "abc", "adc", "ac"}, {"ab", "abd"}},
      {"x^|^y$", {"y"}, {"x", "xy"}},
      {"\\u{1F600}|\\uD83D\\uDE01|\\x41", {"😀", "😁", "A"}, {"B"}},
      {"\\p{Lu}\\p{Ll}*", {"Été", "A"}, {"été", "AB"}},
      {"[\\w-.]+", {"a-b.c"}, {"a b"}},
      {"a{,2}{", {"a{,2}{"}, {"aa"}},
      {"\\s.", {"\u00a0x", " é"}, {"x ", " \n"}},
      {"\\cJ\\0\\t\\/", {std::string("\n\0\t/", 4)}, {"\n"}},
  };
  for (const Texts& c : cases) expect_verdicts(Grammar::from_regex(c.source), c);
}

TEST(GrammarRegex, ErrorsHaveAColumn) {
  const auto error = [](std::string_view source) {
    const GrammarResult grammar = Grammar::from_regex(source);
    return grammar ? "no error" : grammar.error().text();
  };
  EXPECT_EQ(error("é(?<=a)"), "grammar: 1:2: lookbehind is not supported");
  EXPECT_EQ(error("(a)\\1"), "grammar: 1:4: backreferences are not supported");
  EXPECT_EQ(error("(?i)a"), "grammar: 1:1: flags inside a pattern are not supported");
  EXPECT_EQ(error("(a"), "grammar: 1:3: missing )");
  EXPECT_EQ(error("a)"), "grammar: 1:2: unmatched )");
  EXPECT_EQ(error("[a"), "grammar: 1:1: missing ]");
  EXPECT_EQ(error("[b-a]"), "grammar: 1:2: range out of order");
  EXPECT_EQ(error("*"), "grammar: 1:1: nothing to repeat");
  EXPECT_EQ(error("a{3,2}"), "grammar: 1:2: bounds out of order");
  EXPECT_EQ(error("(?:(?=a)b)*"), "grammar: 1:11: an assertion inside a repeated group is not supported");
  EXPECT_EQ(error("\\y"), "grammar: 1:1: unknown escape");
  EXPECT_EQ(error("\\p{Nope}"), "grammar: 1:1: unknown property \"Nope\"");
  EXPECT_EQ(error("a(?!.*)"), "grammar: 1:1: no text matches");
  std::string twelve_lookaheads;
  for (const char c : std::string_view("abcdefghijkl")) twelve_lookaheads += fmt::format("(?=.*{})", c);
  EXPECT_EQ(error(twelve_lookaheads + ".*"), "no error");
  EXPECT_EQ(error(twelve_lookaheads + "[a-k]{0,30}"),
            "grammar: 1:1: the grammar needs more states or more time than the limits allow");
  EXPECT_EQ(error(std::string(300, '(')), "grammar: 1:257: groups nested deeper than 256");
  EXPECT_EQ(error(std::string(70'000, 'a')), "grammar: 1:1: more than 64 KiB");
}

TEST(GrammarNumbers, DecimalsAreExact) {
  const auto parse = [](std::string_view text) { return Decimal::parse(text); };
  EXPECT_EQ(parse("1.50"), parse("15e-1"));
  EXPECT_EQ(parse("-0.0"), Decimal());
  EXPECT_EQ(parse("12e2"), (Decimal{.integer = "1200"}));
  EXPECT_EQ(parse("-0.00125E1"), (Decimal{.is_negative = true, .fraction = "0125"}));
  for (const char* text : {"", "-", "1.", ".5", "1e", "1e+", "1x", "1e99999", "1e-2000"})
    EXPECT_FALSE(parse(text)) << text;
}

TEST(GrammarNumbers, BoundsAndFactorsOfSchemas) {
  const Texts cases[] = {
      {R"({"type": "number", "minimum": 0.1, "exclusiveMaximum": 2.55})",
       {"0.1", "0.10", "1", "2.5", "2.549", "1e-1", "2.5e0"},
       {"0.09", "2.55", "3", "-1", "2.55e0", "9e-2"}},
      {R"({"type": "integer", "minimum": -12, "maximum": 105})",
       {"-12", "-1", "-0", "0", "9", "105"},
       {"-13", "106", "1.0", "1e1", "01"}},
      {R"({"type": "number", "multipleOf": 0.25})", {"0", "0.25", "-1.5", "3", "2.500"}, {"0.3", "1.2", "0.125"}},
      {R"({"type": "integer", "multipleOf": 7, "minimum": 20})", {"21", "70"}, {"20", "14", "22"}},
      {R"({"type": "number", "not": {"maximum": 5}})", {"5.01", "6", "1e1"}, {"5", "-7", "1e-1"}},
      {R"({"type": "number", "not": {"type": "integer"}})", {"1.5", "1e-1"}, {"1", "1.0", "1e1"}},
      // Constants are written as in the schema, or as integers.
      {R"({"enum": [1, 2.5, -3e2]})", {"1", "2.5", "-3e2", "-300"}, {"2", "300", "1.0", "-30e1", "2.50"}},
      {R"({"type": "integer", "enum": [1.0, 7, 2.5]})", {"7", "1"}, {"1.0", "2.5", "2"}},
      {R"({"type": "integer", "const": 1.0})", {"1"}, {"1.0"}},
      {R"({"not": {"const": 1}, "type": "number"})", {"2", "1.5"}, {"1", "1.0", "1e0"}},
  };
  for (const Texts& c : cases) expect_verdicts(Grammar::from_json_schema(c.source), c);
  const GrammarResult any = Grammar::from_json_schema(R"({"enum": [1, -3e2]})", {.writing = JsonWriting::any});
  for (const char* text : {"1", "1.0", "1e0", "-300", "-3e2"}) EXPECT_TRUE(accepts(any, text)) << text;
}

TEST(GrammarSchemas, ObjectsArraysAndStrings) {
  const Texts cases[] = {
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}, "required": ["b"],
           "additionalProperties": false})",
       {R"({"a": 1, "b": true})", R"({"b":false})", "{\n  \"a\": 1,\n  \"b\": true\n}"},
       {R"({"a": 1})", R"({"b": true, "c": 1})", R"({"b": 1})", R"({"b": true,})", "{}"}},
      {R"({"type": "array", "items": {"enum": ["x", "yé"]}, "minItems": 1, "maxItems": 2})",
       {R"(["x"])", R"(["x", "yé"])"},
       {"[]", R"(["x","x","x"])", R"(["y"])"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^a"})",
       {R"("ab")", R"("a\"é")"},
       {R"("a")", R"("abcd")", R"("ba")"}},
      {R"({"anyOf": [{"const": null}, {"$ref": "#/$defs/list"}],
           "$defs": {"list": {"type": "array", "items": {"$ref": "#"}}}})",
       {"null", "[]", "[null, [[], null]]"},
       {"1", "[1]", "[[1]]"}},
      {R"({"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"})",
       {R"({"a": 1})", R"({"b": [1, "x"]})"},
       {"{}", R"({"a": 1, "b": 2})"}},
      {R"({"type": "object", "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": {"type": "null"}})",
       {R"({"x_1": 3, "y": null})", "{}"},
       {R"({"x_1": null})", R"({"y": 3})"}},
      {R"({"default": [{"$anchor": "x", "type": "string"}], "$defs": {"a": {"$anchor": "x", "type": "integer"}},
           "examples": [{"$anchor": "x", "type": "string"}], "$ref": "#x"})",
       {"1"},
       {R"("a")"}},
      {R"({"type": "string", "format": "date"})", {R"("2024-02-29")"}, {R"("2023-02-29")", R"("2024-2-1")"}},
  };
  for (const Texts& c : cases) expect_verdicts(Grammar::from_json_schema(c.source), c);
}

TEST(GrammarSchemas, StringsInBothSpellings) {
  struct Case {
    JsonWriting writing;
    std::vector<std::string> accepted, refused;
  };
  const Case cases[] = {
      {JsonWriting::plain,
       {R"("\u001a")", R"("\n")", R"("\"")", R"("é")", "\"\x7f\""},
       {R"("\u001A")", R"("\u000a")", R"("\u0041")", R"("\/")", R"("\u001:")", "\"\x1a\""}},
      {JsonWriting::any,
       {R"("\u001a")", R"("\u001A")", R"("\u000a")", R"("\u0041")", R"("\/")", R"("\ud83d\uDE00")", R"("😀")"},
       {R"("\u001:")", R"("\u001g")", R"("\u00")", R"("\ud83d")", R"("\ude00\ud83d")", R"("\ud83d\u0041")"}},
  };
  for (const Case& c : cases) {
    const GrammarResult grammar =
        Grammar::from_json_schema(R"({"type": "string", "minLength": 1, "maxLength": 1})", {.writing = c.writing});
    for (const std::string& text : c.accepted) EXPECT_TRUE(accepts(grammar, text)) << text;
    for (const std::string& text : c.refused) EXPECT_FALSE(accepts(grammar, text)) << text;
  }
}

TEST(GrammarSchemas, OrderRepetitionAndConditionsOnSomePart) {
  const Texts cases[] = {
      {R"({"properties": {"a": {}, "b": {}}, "required": ["a"], "maxProperties": 2})",
       {R"({"a":1})", R"({"b":1,"a":2})", R"({"c":1,"a":2})"},
       {R"({"b":1})", R"({"b":1,"c":2,"a":3})", R"({"a":1,"a":2})", R"({"c":1,"d":2})"}},
      {R"({"additionalProperties": {"type": "integer"}, "minProperties": 2})",
       {R"({"x":1,"y":2})", R"({"x":1,"xy":2,"y":3})"},
       {R"({"x":1})", R"({"x":1,"x":2})", R"({"x":1,"y":2,"x":3})"}},
      {R"({"type": "array", "uniqueItems": true, "items": {"type": ["number", "string", "boolean"]}})",
       {"[]", R"([1,"1",2,true])", R"(["a","ab"])"},
       {"[1,2,1]", R"(["a","b","a"])", "[1,1.0]", "[true,false,true]", "[0,-0]"}},
      {R"({"type": "array", "contains": {"type": "string"}, "minContains": 2, "maxItems": 3})",
       {R"(["a","b"])", R"([1,"a","b"])", R"(["a",1,"b"])"},
       {"[]", R"(["a"])", R"([1,2,"a"])", R"(["a",1,2])"}},
      {R"({"type": "array", "contains": {"type": "string"}, "maxContains": 1})",
       {R"(["a"])", R"([1,"a",2])"},
       {"[]", "[1]", R"(["a","b"])"}},
      {R"({"type": "object", "not": {"properties": {"a": {"type": "integer"}}, "additionalProperties": false}})",
       {R"({"a":"x"})", R"({"b":1})", R"({"a":1,"b":2})", R"({"b":1,"a":1})"},
       {"{}", R"({"a":1})"}},
      {R"({"type": "integer", "not": {"multipleOf": 3}})", {"1", "-7", "40"}, {"0", "3", "-12"}},
  };
  for (const Texts& c : cases) expect_verdicts(Grammar::from_json_schema(c.source, {.order = JsonOrder::any}), c);
}

TEST(GrammarSchemas, NegationsBreakOneConditionAtLeast) {
  const Texts cases[] = {
      {R"({"type": "array", "maxItems": 2})", {"[1,2,3]"}, {"[]", "[1,2]"}},
      {R"({"type": "array", "minItems": 2})", {"[]", "[1]"}, {"[1,2]", "[1,2,3]"}},
      {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}]})",
       {R"(["a"])", "[1,2]", R"(["a","a",1])"},
       {"[]", "[1]", R"([1,"a"])", R"([1,"a",2])"}},
      {R"({"prefixItems": [{}], "items": false})", {"[1,2]"}, {"[]", "[1]"}},
      {R"({"items": {"type": "integer"}})", {R"(["a"])", R"([1,"a"])"}, {"[]", "[1,2]"}},
      {R"({"contains": {"type": "string"}})", {"[]", "[1]"}, {R"(["a"])", R"([1,"a"])"}},
      {R"({"contains": {"type": "string"}, "minContains": 2})", {"[]", R"(["a",1])"}, {R"(["a","b"])"}},
      {R"({"contains": {"type": "string"}, "minContains": 0, "maxContains": 1})",
       {R"(["a","b"])", R"(["a",1,"b"])"},
       {"[]", R"(["a"])", R"([1,"a"])"}},
      {R"({"required": ["a"]})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"properties": {"a": {"type": "integer"}}})", {R"({"a":"x"})"}, {"{}", R"({"a":1})", R"({"b":"x"})"}},
      {R"({"minProperties": 2})", {"{}", R"({"a":1})"}, {R"({"a":1,"b":2})"}},
      {R"({"maxProperties": 1})", {R"({"a":1,"b":2})"}, {"{}", R"({"a":1})"}},
      {R"({"additionalProperties": {"type": "integer"}})", {R"({"a":1,"b":"x"})"}, {"{}", R"({"a":1})"}},
      {R"({"patternProperties": {"^x": {"type": "integer"}}})", {R"({"xy":"a"})"}, {R"({"y":"a"})", R"({"x":1})"}},
      {R"({"propertyNames": {"maxLength": 2}})", {R"({"abc":1})"}, {"{}", R"({"ab":1})"}},
      {R"({"minLength": 2})", {R"("a")"}, {R"("ab")", "1"}},
      {R"({"maximum": 3})", {"4", "3.5"}, {"3", "-1", R"("a")"}},
      {R"({"type": "integer"})", {"1.5", R"("a")", "{}"}, {"1", "-20"}},
      {R"({"type": ["integer", "null"]})", {"1.5", "true"}, {"1", "null"}},
  };
  for (const Texts& c : cases)
    expect_verdicts(Grammar::from_json_schema("{\"not\": " + c.source + "}", {.order = JsonOrder::any}), c);
}

// A search for a text that looks at short texts only, or at long ones only, would need more states.
TEST(GrammarExpressions, TextsThatAreLongOrNearAreFoundWithFewStates) {
  constexpr size_t kStates = 1000;
  const auto has_text = [](auto make) {
    ExpressionArena arena(100'000);
    LexemeStates states(arena, kStates);
    const bool found = states.state_of(make(arena)) != LexemeStates::kDead;
    EXPECT_FALSE(states.overflowed());
    return found;
  };
  const auto letters = [](ExpressionArena& arena, char last) { return arena.bytes(ByteSet::range('a', last)); };
  EXPECT_TRUE(has_text([&](ExpressionArena& arena) {  // 2^7 states for each of 60 lengths
    const Expression ab = letters(arena, 'b'), any = arena.repeat(ab, 0, kUnbounded);
    return arena.all_of(arena.repeat(ab, 60, 60),
                        arena.concat(std::vector{any, arena.literal("a"), arena.repeat(ab, 6, 6)}));
  }));
  EXPECT_TRUE(has_text([&](ExpressionArena& arena) {  // a million texts without an end
    const Expression bc = arena.bytes(ByteSet::range('b', 'c'));
    return arena.all_of(arena.repeat(letters(arena, 'c'), 0, kMaxRepeat),
                        arena.concat(arena.repeat(bc, 0, kUnbounded), arena.literal("aa")));
  }));
  EXPECT_FALSE(has_text([&](ExpressionArena& arena) {
    const Expression a = arena.literal("a");
    return arena.all_of(arena.repeat(arena.concat(a, a), 1, 100),
                        arena.concat(arena.repeat(arena.concat(a, a), 0, kUnbounded), a));
  }));
}

TEST(GrammarSchemas, TooFewDifferentItemsAreNoValue) {
  for (const char* values : {"[1, 2, 1.0]", R"(["a", "b"])", R"(["a", true])"}) {
    const auto error = [&](std::string_view min) {
      return error_of(Grammar::from_json_schema(fmt::format(
          R"({{"type": "array", "uniqueItems": true, "items": {{"enum": {}}}, "minItems": {}}})", values, min)));
    };
    EXPECT_EQ(error("2"), "no error") << values;
    EXPECT_EQ(error("3"), "json_schema#: no value satisfies it") << values;
  }
}

TEST(GrammarSchemas, MembersThatCannotComeAreNoValue) {
  const char* const sources[] = {
      R"({"type": "object", "required": ["a"], "additionalProperties": false})",
      R"({"type": "object", "required": ["a"], "properties": {"b": {}}, "additionalProperties": false})",
      R"({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}})",
      R"({"type": "object", "minProperties": 1, "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}},
          "additionalProperties": false})",
      R"({"type": "object", "minProperties": 2, "properties": {"a": {"$ref": "#"}, "b": {}},
          "additionalProperties": false})",
      R"({"type": "array", "minItems": 1, "items": {"$ref": "#"}})",
      R"({"type": "array", "contains": {"$ref": "#"}})",
  };
  for (const char* source : sources)
    for (const JsonOrder order : {JsonOrder::schema, JsonOrder::any})
      EXPECT_EQ(error_of(Grammar::from_json_schema(source, {.order = order})), "json_schema#: no value satisfies it")
          << source;
}

TEST(GrammarSchemas, ErrorsNameThePlace) {
  const auto error = [](std::string_view source) { return error_of(Grammar::from_json_schema(source)); };
  EXPECT_EQ(error("{"), "json_schema#: not JSON: error at byte 1");
  EXPECT_EQ(error(R"x({"properties": {"a/b": {"pattern": "a(?<=b)"}}})x"),
            "json_schema#/properties/a~1b/pattern: at 2: lookbehind is not supported");
  EXPECT_EQ(error(R"({"$ref": "http://example.com/x"})"),
            "json_schema#/$ref: reference \"http://example.com/x\" leads outside of the schema");
  EXPECT_EQ(error(R"({"type": "text"})"), "json_schema#/type: unknown type \"text\"");
  EXPECT_EQ(error("false"), "json_schema#: no value satisfies it");
  EXPECT_EQ(error(R"({"propertyNames": {"$ref": "#"}})"),
            "json_schema#/$ref: the schema refers to itself without a value between");
}

}  // namespace
}  // namespace tessera::text::grammar
