// Grammars in GBNF and regular expressions: golden grammars with texts, places of errors, and limits.
#include "tessera/text/grammar/matcher.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/testing.h"
#include "tests/text/grammar_support.h"

namespace tessera::text::grammar {
namespace {

using testing::error_of;
using testing::repeated;

using nlohmann::json;

/// Whether a text is one of the grammar's, and how many of its bytes can be read.
struct Reading {
  bool is_complete;
  size_t n_bytes;
};
Reading read(Matcher& matcher, std::string_view text) {
  matcher.restart();
  const size_t n_bytes = matcher.accept(text);
  return {n_bytes == text.size() && matcher.is_complete(), n_bytes};
}

void expect_texts(const json& row, Matcher& matcher) {
  for (const std::string text : row["accept"]) EXPECT_TRUE(read(matcher, text).is_complete) << text;
  for (const std::string text : row["reject"]) EXPECT_FALSE(read(matcher, text).is_complete) << text;
  for (const std::string text : row["prefix"]) EXPECT_EQ(read(matcher, text).n_bytes, text.size()) << text;
  EXPECT_FALSE(matcher.overflowed());
}

TEST(Gbnf, GoldenGrammars) {
  std::ifstream file(testing::data_path("grammars.jsonl"));
  size_t n_rows = 0;
  for (std::string line; std::getline(file, line); ++n_rows) {
    const json row = json::parse(line);
    SCOPED_TRACE(row["id"]);
    const GrammarResult grammar = Grammar::from_gbnf(row["grammar"].get<std::string>());
    if (row.contains("error")) {
      ASSERT_FALSE(grammar) << row["error"];
      EXPECT_EQ(grammar.error().line, row["line"]) << grammar.error().text();
      continue;
    }
    ASSERT_TRUE(grammar) << grammar.error().text();
    Matcher matcher(*grammar);
    expect_texts(row, matcher);
  }
  EXPECT_EQ(n_rows, 97u);
}

TEST(Gbnf, ErrorsHaveAPlaceAndWords) {
  struct Case {
    std::string source, wanted;
  };
  const Case cases[] = {
      {"", "grammar: 1:1: no rule \"root\""},
      {"root ::= é x\n", "grammar: 1:10: want the end of the line"},
      {"root ::= \"é\" x\n", "grammar: 1:14: undefined rule \"x\""},
      {"root := \"a\"", "grammar: 1:6: want ::="},
      {"root ::= \"a\n\n", "grammar: 3:1: unexpected end"},
      {"root ::= \"a\\", "grammar: 1:13: unexpected end"},
      {"root ::= ([a]", "grammar: 1:14: want )"},
      {"root ::= \"\\x4g\"", "grammar: 1:13: want 2 hex digits"},
      {"root ::= \"\\ud800\"", "grammar: 1:11: not a code point"},
      {"root ::= [b-a]", "grammar: 1:11: range out of order"},
      {"root ::= [^]", "grammar: 1:10: empty character class"},
      {"root ::= \"a\"{2,1}", "grammar: 1:13: bounds out of order"},
      {"root ::= \"a\"{1000001}", "grammar: 1:13: more than 1000000 repetitions"},
      {"root ::= \"a\"{99999999999999999999}", "grammar: 1:13: more than 1000000 repetitions"},
      {"root ::= \"a\"{x}", "grammar: 1:14: want a number"},
      {"root ::= \"a\"{1", "grammar: 1:15: want }"},
      {"root ::= | * \"a\"", "grammar: 1:12: nothing to repeat"},
      {"root ::= <think>", "grammar: 1:10: no token \"<think>\""},
      {"root ::= <[5>", "grammar: 1:13: want ]>"},
      {"root ::= <think", "grammar: 1:11: want >"},
      {"root ::= \"\xff\"", "grammar: 1:11: not UTF-8"},
      {"a ::= \"x\"\nroot ::= a\na ::= b\nb ::= \"y\" b", "grammar: 2:1: the rule has no finite text"},
      {"root ::= w \"a\"* root | \"b\"\nw ::= \" \"*", "grammar: 1:1: left recursion: root > root"},
      {"root ::= a\na ::= b \"x\" | \"1\"\nb ::= a \"y\" | \"2\"", "grammar: 2:1: left recursion: a > b > a"},
      {"root ::= (root \"x\")? \"y\"", "grammar: 1:1: left recursion: root > root"},
      {"root ::= (root \"x\"){2,5} | \"y\"", "grammar: 1:1: left recursion: root > root > root"},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of(Grammar::from_gbnf(c.source)), c.wanted) << c.source;
}

TEST(Gbnf, LimitsOfTheSource) {
  const auto error = [](std::string source) { return error_of(Grammar::from_gbnf(source)); };
  EXPECT_EQ(error(std::string((1 << 20) + 1, ' ')), "grammar: 1:1: more than 1 MiB");
  EXPECT_EQ(error("root ::= " + std::string(257, '(')), "grammar: 1:266: groups nested deeper than 256");
  EXPECT_EQ(error("root ::= " + std::string(256, '(') + "\"a\"" + std::string(256, ')')), "no error");
  std::string rules = "root ::= \"a\"\n";
  for (int i = 0; i < 65536; ++i) rules += fmt::format("a{} ::= [a]\n", i);
  EXPECT_EQ(error(rules), "grammar: 65537:1: more than 65536 rules");
  EXPECT_EQ(error("root ::= \"a\"" + repeated("|", 1'040'000)), "no error");
}

// Repetitions are counted, not copied.
TEST(Gbnf, LargeAndNestedRepetitions) {
  const auto matcher_of = [](std::string_view source) {
    const GrammarResult grammar = Grammar::from_gbnf(source);
    EXPECT_TRUE(grammar) << grammar.error().text();
    return Matcher(*grammar);
  };
  Matcher exact = matcher_of("root ::= \"ab\"{100000} | \"c\"");
  EXPECT_TRUE(read(exact, repeated("ab", 100'000)).is_complete);
  EXPECT_EQ(read(exact, repeated("ab", 100'001)).n_bytes, 200'000u);
  EXPECT_FALSE(read(exact, repeated("ab", 99'999)).is_complete);
  // A rule that is not regular has its count in the call.
  Matcher counted = matcher_of("root ::= item{3,5}\nitem ::= \"(\" item? \")\"");
  EXPECT_FALSE(read(counted, "()()").is_complete);
  EXPECT_TRUE(read(counted, "()(())()").is_complete);
  EXPECT_TRUE(read(counted, "()()()()()").is_complete);
  EXPECT_EQ(read(counted, "()()()()()(").n_bytes, 10u);
  // An inner count is not a turn without text.
  Matcher twice = matcher_of("root ::= (item{2,3}){2,3}\nitem ::= \"(\" item? \")\"");
  EXPECT_FALSE(read(twice, "").is_complete);
  EXPECT_FALSE(read(twice, "()()()").is_complete);
  EXPECT_TRUE(read(twice, "()()()()").is_complete);
  EXPECT_FALSE(read(twice, repeated("()", 10)).is_complete);
  // Turns without text are not counted.
  Matcher idle = matcher_of("root ::= (item?){2,1000000} \"!\"\nitem ::= \"(\" item? \")\"");
  EXPECT_TRUE(read(idle, "!").is_complete);
  EXPECT_TRUE(read(idle, "()(())!").is_complete);
  EXPECT_FALSE(idle.overflowed());
}

TEST(Gbnf, NestedTextEndsAtALimit) {
  const GrammarResult grammar = Grammar::from_gbnf("root ::= \"(\" root \")\" | \"x\"");
  ASSERT_TRUE(grammar);
  Matcher matcher(*grammar);
  EXPECT_EQ(read(matcher, std::string(1000, '(')).n_bytes, 511u);
  // At the limit, only the text that ends is left.
  EXPECT_TRUE(read(matcher, std::string(511, '(') + "x" + std::string(511, ')')).is_complete);
  // Recursion at the end of a rule is a loop without nesting.
  const GrammarResult loop = Grammar::from_gbnf("root ::= item root | \"\"\nitem ::= \"a\" item | \"b\"");
  ASSERT_TRUE(loop);
  Matcher flat(*loop);
  EXPECT_TRUE(read(flat, repeated("aab", 10'000)).is_complete);
}

// Ways to read a text that differ only in what they began with share their calls.
TEST(Gbnf, AmbiguousNestingDoesNotMultiply) {
  const GrammarResult grammar =
      Grammar::from_gbnf("root ::= a | b | c\na ::= \"(\" root \")\"\nb ::= \"(\" root \")\" \"!\"\nc ::= \"x\"");
  ASSERT_TRUE(grammar);
  Matcher matcher(*grammar);
  EXPECT_TRUE(read(matcher, std::string(200, '(') + "x" + repeated(")!)", 100)).is_complete);
  EXPECT_FALSE(matcher.overflowed());
}

TEST(Gbnf, TokensByIdAndText) {
  const FindToken find = [](std::string_view text) { return text == "<call>" ? std::optional(7) : std::nullopt; };
  EXPECT_TRUE(Grammar::from_gbnf("root ::= <call> \"a\" !<[3]>", find));
  EXPECT_FALSE(Grammar::from_gbnf("root ::= <end>", find));
}

}  // namespace
}  // namespace tessera::text::grammar
