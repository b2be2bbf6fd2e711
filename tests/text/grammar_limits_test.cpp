// Hostile grammars: each is a grammar or an error with a place, and its masks end within the limits.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/text/grammar/matcher.h"
#include "tests/support/testing.h"
#include "tests/text/grammar_support.h"

namespace tessera::text::grammar {
namespace {

using testing::error_of;
using testing::repeated;

constexpr std::string_view kOverLimits = "the grammar needs more states or more time than the limits allow";

/// part(0), part(1), ... with a separator between them.
template <class F>
std::string joined(size_t n, std::string_view separator, F part) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += (i == 0 ? "" : std::string(separator)) + part(i);
  return all;
}

/// Reads tokens that fit, the last in the vocabulary first. Each mask has a token, unless the matcher tells that a
/// limit was reached.
void expect_masks(const GrammarResult& grammar) {
  ASSERT_TRUE(grammar) << grammar.error().text();
  std::vector<MaskVocab::Token> tokens = {{.text = "</s>", .ends_text = true}};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte))});
  for (const char* text : {"ab", "aaaa", "\"a", "{\"a\":"}) tokens.push_back({text});
  const auto n_tokens = static_cast<int32_t>(tokens.size());
  Matcher matcher(*grammar, std::make_shared<const MaskVocab>(std::move(tokens)));
  for (int step = 0; step < 10 && !matcher.overflowed(); ++step) {
    const TokenRow mask = matcher.mask();
    if (matcher.overflowed()) return;
    int32_t id = n_tokens - 1;
    while (id >= 0 && !mask.contains(id)) --id;
    ASSERT_GE(id, 0);
    ASSERT_TRUE(matcher.accept_token(id));
    if (id == 0) return;
  }
}

struct Hostile {
  std::string name, source;
  std::string_view wanted = "";  // the error; "" for none
};

template <class F>
void expect_outcomes(std::span<const Hostile> cases, F compile) {
  for (const Hostile& c : cases) {
    SCOPED_TRACE(c.name);
    const GrammarResult grammar = compile(c.source);
    if (!c.wanted.empty())
      EXPECT_EQ(error_of(grammar), c.wanted);
    else
      expect_masks(grammar);
  }
}

std::string chain(size_t n, std::string_view before, std::string_view last) {
  return "root ::= a0\n" + joined(n, "", [&](size_t i) { return fmt::format("a{} ::= {} a{}\n", i, before, i + 1); }) +
         fmt::format("a{} ::= {}\n", n, last);
}

TEST(GrammarLimits, HostileGbnf) {
  const size_t many = testing::all_or_few<size_t>(100'000, 10'000);
  const std::string nested = "((([ab]{0,99} [c]?){0,99} [d]?){0,99} [e]?){0,99}";
  const Hostile cases[] = {
      {"60,000 parentheses", "root ::= " + std::string(60'000, '('), "grammar: 1:266: groups nested deeper than 256"},
      {"200,000 rules", chain(200'000, "", "\"x\""), "grammar: 1:1: more than 1 MiB"},
      {"a chain of rules", chain(many / 2, "", "\"x\"")},
      {"a chain of rules without an end", chain(many / 4, "\"x\"", "<[1]> a0"),
       "grammar: 1:1: the rule has no finite text"},
      {"a deep chain of rules", chain(600, "\"x\"", "\"y\" | <[1]> a0"),
       "grammar: 1:1: each text needs more than 512 calls within calls"},
      {"a chain that the limit of depth allows", chain(500, "\"x\"", "\"y\" | <[1]> a0")},
      {"a loop of a loop", "root ::= ([x]*)*"},
      {"a billion characters", "root ::= [a]{1000000000}", "grammar: 1:13: more than 1000000 repetitions"},
      {"four nested counts", "root ::= (([a]{0,99}){0,99}){0,99}"},
      {"four nested counts of a sequence", "root ::= " + nested},
      {"a rule in four nested counts", "root ::= (((x{0,99}){0,99}){0,99}){0,99}\nx ::= \"a\" x?"},
      {"left recursion", "root ::= root \"a\" | \"b\"", "grammar: 1:1: left recursion: root > root"},
      {"left recursion after a loop", "root ::= w root \"a\" | \"b\"\nw ::= \" \"*",
       "grammar: 1:1: left recursion: root > root"},
      {"optional texts", "root ::= " + repeated("\"a\"? ", many)},
      {"loops in a row", "root ::= " + repeated("[a]* ", many)},
      {"optional calls", "root ::= " + repeated("x? ", many) + "\nx ::= \"(\" x? \")\""},
      {"stars", "root ::= \"a\"" + std::string(many, '*')},
      {"counts of counts", "root ::= x" + repeated("{1,9}", many) + "\nx ::= \"(\" x? \")\"",
       "grammar: 1:1: each text needs more than 512 calls within calls"},
      {"many ways to read a text", "root ::= (x{0,1000}){0,1000}\nx ::= \"a\" x? \"b\"? x?"},
      {"many literals",
       "root ::= (" + joined(many / 2, "|", [](size_t i) { return fmt::format("\"a{}\"", i); }) + ")*"},
  };
  expect_outcomes(cases, [](std::string_view source) { return Grammar::from_gbnf(source); });
}

TEST(GrammarLimits, HostileRegexes) {
  const size_t n = testing::all_or_few<size_t>(9'000, 900);
  const Hostile cases[] = {
      {"a loop of the start", "^*$", "grammar: 1:2: an assertion inside a repeated group is not supported"},
      {"a loop of a lookbehind", "^(?<=x)*$", "grammar: 1:2: lookbehind is not supported"},
      {"a star", "*", "grammar: 1:1: nothing to repeat"},
      {"a parenthesis", "(", "grammar: 1:2: missing )"},
      {"a lookbehind", "(?<=x)", "grammar: 1:1: lookbehind is not supported"},
      {"50,000 parentheses", std::string(50'000, '('), "grammar: 1:257: groups nested deeper than 256"},
      {"a loop of a loop", "(a+)+$"},
      {"loops of anything", "(.*)*(.*)*(.*)*x"},
      {"a character far from the end", "(a|b)*a(a|b){60}"},
      {"nested counts", "((a{0,99}){0,99}){0,99}"},
      {"optional characters", repeated("a?", n) + repeated("a", n)},
      {"all letters", repeated("\\p{L}", n)},
      {"optional classes", repeated("[\\p{L}\\p{N}]?", n / 4)},
      {"a class of many characters",
       "[" + joined(2 * n, "", [](size_t i) { return fmt::format("\\u{:04x}", 0x4e00 + i); }) + "]",
       n > 6000 ? "grammar: 1:1: more than 64 KiB" : ""},
      {"alternatives that end", joined(n, "|", [](size_t) { return "^a$"; })},
      {"edges of words", repeated("(\\b|\\B)", n / 3)},
      {"twelve lookaheads without the letter twice",
       joined(12, "", [](size_t i) { return fmt::format("(?!.*{0}{0})", static_cast<char>('a' + i)); }) + ".*"},
  };
  expect_outcomes(cases, [](std::string_view source) { return Grammar::from_regex(source); });
}

// Patterns inside a schema, with the place of the keyword.
TEST(GrammarLimits, HostilePatterns) {
  const auto error = [](const std::string& pattern) {
    return error_of(Grammar::from_json_schema(R"({"type": "string", "pattern": ")" + pattern + "\"}"));
  };
  const std::string at = "json_schema#/pattern: at ";
  EXPECT_EQ(error("^*$"), at + "2: an assertion inside a repeated group is not supported");
  EXPECT_EQ(error("^(?<=x)*$"), at + "2: lookbehind is not supported");
  EXPECT_EQ(error("*"), at + "1: nothing to repeat");
  EXPECT_EQ(error("("), at + "2: missing )");
  EXPECT_EQ(error(std::string(50'000, '(')), at + "257: groups nested deeper than 256");
  EXPECT_EQ(error("(a+)+$"), "no error");
}

TEST(GrammarLimits, HostileSchemas) {
  const size_t many = testing::all_or_few<size_t>(100'000, 10'000);
  const auto number = [](size_t i) { return fmt::format("\"v{}\"", i); };
  const auto property = [](size_t i) { return fmt::format(R"("p{}":{{"type":"null"}})", i); };
  const auto either = [](size_t i) {
    return fmt::format(
        R"({{"anyOf":[{{"type":"object","required":["a{0}"]}},{{"type":"object","required":["b{0}"]}}]}})", i);
  };
  const std::string over_limits = "json_schema#: " + std::string(kOverLimits);
  const std::string too_large = "json_schema#/not: its complement is not a union that is small enough";
  const Hostile cases[] = {
      {"100,000 brackets", std::string(100'000, '['), "json_schema#: nested deeper than 256"},
      {"100,000 schemas within each other", repeated(R"({"not":)", 100'000), "json_schema#: nested deeper than 256"},
      {"2,000 schemas within each other", repeated(R"({"items":)", 2000) + "{}" + std::string(2000, '}'),
       "json_schema#: nested deeper than 256"},
      {"200 negations", repeated(R"({"not":)", 200) + "{}" + std::string(200, '}')},
      {"a string of a billion characters", R"({"type": "string", "minLength": 1e9})",
       "json_schema#/minLength: more than 1000000 characters"},
      {"a billion items", R"({"type": "array", "minItems": 1000000000})"},
      {"a reference to itself", R"({"$ref": "#"})",
       "json_schema#/$ref: the schema refers to itself without a value between"},
      {"names that refer to themselves", R"({"propertyNames": {"anyOf": [{"$ref": "#"}]}})",
       "json_schema#/$ref: the schema refers to itself without a value between"},
      {"references in a circle",
       R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})",
       "json_schema#/$defs/a/$ref: the schema refers to itself without a value between"},
      {"a value that contains itself", R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
       "json_schema#: no value satisfies it"},
      {"a reference to another document", R"({"$ref": "http://example.com/x"})",
       "json_schema#/$ref: reference \"http://example.com/x\" leads outside of the schema"},
      {"many values", R"({"enum": [)" + joined(many / 2, ",", number) + "]}"},
      {"all but many values", R"({"not": {"enum": [)" + joined(many / 2, ",", number) + "]}}"},
      {"a union of 4,096 objects", R"({"allOf": [)" + joined(12, ",", either) + "]}",
       "json_schema#/allOf: the union of its alternatives is too large"},
      {"names that are not in a long list",
       R"({"not": {"properties": {)" + joined(2'000, ",", property) + "}, \"type\": \"object\"}}", too_large},
      {"items that are not in a long list",
       R"({"not": {"type": "array", "prefixItems": [)" + joined(many / 2, ",", [](size_t) { return "false"; }) + "]}}",
       too_large},
  };
  expect_outcomes(cases, [](std::string_view source) { return Grammar::from_json_schema(source); });
  // Work that is not done by derivatives has the same limit.
  const std::string names = joined(many / 4, ",", number),
                    numbers = joined(many / 5, ",", [](size_t i) { return fmt::format("{}", i); });
  for (const std::string& source :
       {R"({"type": "object", "required": [)" + names + "]}", R"({"dependentRequired": {"a": [)" + names + "]}}",
        R"({"const": [)" + numbers + "]}"}) {
    const std::string error = error_of(Grammar::from_json_schema(source));
    EXPECT_TRUE(error == over_limits || error == "no error") << error;
  }
}

}  // namespace
}  // namespace tessera::text::grammar
