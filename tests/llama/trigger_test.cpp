#include "tessera/llama/trigger.h"

#include <gtest/gtest.h>

using namespace tessera;
using namespace tessera::llama;

namespace {

TriggerSearch search_of(std::string_view regex) {
  auto pattern = TriggerPattern::from_regex(regex);
  EXPECT_TRUE(pattern.has_value()) << regex;
  return TriggerSearch(*pattern);
}

// The place that a search finds in a text that comes in parts of n bytes, and how many bytes it needs.
struct Found {
  std::optional<size_t> begin;
  size_t n_read = 0;
  bool operator==(const Found&) const = default;
};
Found find_in_parts(TriggerSearch search, std::string_view text, size_t n) {
  for (size_t at = 0; at < text.size(); at += n) {
    const std::string_view part = text.substr(at, n);
    if (const auto begin = search.read(part)) return {begin, at + part.size()};
  }
  return {std::nullopt, text.size()};
}

}  // namespace

TEST(TriggerSearch, FindsAWordAnywhere) {
  const auto word = TriggerPattern::from_word("<a.b>");
  ASSERT_TRUE(word.has_value());
  EXPECT_EQ(find_in_parts(TriggerSearch(*word), "x <axb> <<a.b> y", 1), (Found{9, 14}));
  EXPECT_EQ(find_in_parts(TriggerSearch(*word), "x <axb> <<a.b> y", 100), (Found{9, 16}));
  EXPECT_EQ(find_in_parts(TriggerSearch(*word), "<a.c> <a.b", 1), (Found{std::nullopt, 10}));
  const auto accented = TriggerPattern::from_word("é→");
  ASSERT_TRUE(accented.has_value());
  EXPECT_EQ(find_in_parts(TriggerSearch(*accented), "ée é→", 1), (Found{4, 9}));
}

TEST(TriggerSearch, BeginsWithTheFirstGroup) {
  EXPECT_EQ(find_in_parts(search_of("ab(cd)"), "cd abcd", 1), (Found{5, 7}));  // only behind "ab"
  EXPECT_EQ(find_in_parts(search_of("(ab)cd"), "ab abcd", 1), (Found{3, 7}));
  EXPECT_EQ(find_in_parts(search_of("aa*(b)"), "b axaab", 1), (Found{6, 7}));
  EXPECT_EQ(find_in_parts(search_of("^a(b)$"), "ab", 1), (Found{1, 2}));
  EXPECT_EQ(find_in_parts(search_of("^a(b)$"), "xab", 1), (Found{std::nullopt, 3}));
  EXPECT_EQ(find_in_parts(search_of("(?:ab|x)+(cd)"), "cd xabxcd", 1), (Found{7, 9}));
  EXPECT_EQ(find_in_parts(search_of("(?:a(b))(cd)"), "abcd", 1), (Found{2, 4}));
  EXPECT_EQ(find_in_parts(search_of("[(]a(b)"), "ab (ab", 1), (Found{5, 6}));
  EXPECT_EQ(find_in_parts(search_of("\\(a(b)"), "ab (ab", 1), (Found{5, 6}));
}

TEST(TriggerSearch, BeginsWithTheMatchWithoutAGroup) {
  EXPECT_EQ(find_in_parts(search_of("a[bc]+d"), "abc acbd", 1), (Found{4, 8}));
  EXPECT_EQ(find_in_parts(search_of("(ab)|(cd)"), "x cd", 1), (Found{2, 4}));
}

TEST(TriggerSearch, KeepsToTheEndsOfTheText) {
  EXPECT_EQ(find_in_parts(search_of("^ab"), "abc", 1), (Found{0, 2}));
  EXPECT_EQ(find_in_parts(search_of("^ab"), "xab", 1), (Found{std::nullopt, 3}));
  EXPECT_EQ(find_in_parts(search_of("^b+$"), "b", 1), (Found{0, 1}));
  EXPECT_EQ(find_in_parts(search_of("^b+$"), "xb", 1), (Found{std::nullopt, 2}));
  EXPECT_EQ(find_in_parts(search_of("^[a-z]*(<c>)"), "ab<c>d", 1), (Found{2, 5}));
  EXPECT_EQ(find_in_parts(search_of("^[a-z]*(<c>)"), "a1<c>", 1), (Found{std::nullopt, 5}));
  EXPECT_EQ(find_in_parts(search_of("a$"), "xax", 3), (Found{std::nullopt, 3}));
  EXPECT_EQ(find_in_parts(search_of("a$"), "xaxxa", 3), (Found{4, 5}));
  EXPECT_EQ(find_in_parts(search_of("a\\$"), "xa$x", 4), (Found{1, 4}));
  EXPECT_EQ(find_in_parts(search_of("a\\\\$"), "a\\x a\\", 3), (Found{4, 6}));
  EXPECT_EQ(find_in_parts(search_of("^[\\s\\S]*?(<c>[\\s\\S]*)$"), "1\n2 <c> 3", 1), (Found{4, 7}));
}

TEST(TriggerSearch, TheFirstOfSeveralPlaces) {
  EXPECT_EQ(find_in_parts(search_of("[\\s\\S]*?(a[\\s\\S]*z)"), "a a z", 1), (Found{0, 5}));
  EXPECT_EQ(find_in_parts(search_of("a+b"), "aaab", 4), (Found{0, 4}));
}

TEST(TriggerSearch, GoesOnBehindBytesThatAreNoText) {
  EXPECT_EQ(find_in_parts(search_of("x(y)"), "x\xff xy", 1), (Found{4, 5}));
  EXPECT_EQ(find_in_parts(search_of("x(y)"), "x\xffy", 1), (Found{std::nullopt, 3}));
  EXPECT_EQ(find_in_parts(search_of("^x(y)"), "x\xffxy", 1), (Found{std::nullopt, 4}));
}

TEST(TriggerSearch, ACopyGoesOnFromTheSameText) {
  TriggerSearch search = search_of("ab(cd)");
  EXPECT_EQ(search.read("xabc"), std::nullopt);
  TriggerSearch copy(search);
  EXPECT_EQ(search.read("x"), std::nullopt);
  EXPECT_EQ(copy.read("d"), 3u);
  EXPECT_EQ(search.read("abcd"), 7u);
}

TEST(TriggerSearch, NoMoreMatchesBeginThanTheLimit) {
  TriggerSearch search = search_of("a[\\s\\S]*z|b");
  const std::string text(TriggerSearch::kMaxOpenMatches, 'a');
  EXPECT_EQ(search.read(text.substr(1)), std::nullopt);
  TriggerSearch below(search);
  EXPECT_EQ(search.read("a"), std::nullopt);
  EXPECT_EQ(search.read("b"), std::nullopt);
  EXPECT_EQ(search.read("z"), 0u);
  EXPECT_EQ(below.read("b"), TriggerSearch::kMaxOpenMatches - 1);
}

TEST(TriggerSearch, RefusesWhatIsNoPattern) {
  for (const char* regex : {"(", "x(a)(", "+(a)"}) {
    const auto pattern = TriggerPattern::from_regex(regex);
    ASSERT_FALSE(pattern.has_value()) << regex;
    EXPECT_EQ(pattern.error().code(), ErrorCode::format);
  }
  const auto word = TriggerPattern::from_word("");
  ASSERT_FALSE(word.has_value());
  EXPECT_EQ(word.error().code(), ErrorCode::invalid_argument);
}
