#include "tessera/text/split_pattern.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/testing.h"

namespace tessera::text {
namespace {

size_t match(std::string_view pattern, std::string_view text) {
  const auto compiled = SplitPattern::compile(pattern);
  EXPECT_OK(compiled);
  return compiled ? compiled->match(text) : 99;
}

TEST(SplitPattern, TheFirstAlternativeThatMatchesWins) {
  EXPECT_EQ(match("a|ab", "ab"), 1u);
  EXPECT_EQ(match("ab|a", "ab"), 2u);
  EXPECT_EQ(match("ab|a", "ac"), 1u);
  EXPECT_EQ(match("(a|ab)c", "abc"), 3u) << "later alternatives still count where the first leads nowhere";
}

TEST(SplitPattern, RepeatsAreGreedy) {
  EXPECT_EQ(match("a+", "aaab"), 3u);
  EXPECT_EQ(match("a*b", "aaab"), 4u);
  EXPECT_EQ(match("a?ab", "ab"), 2u);
  EXPECT_EQ(match("a{2}", "aaa"), 2u);
  EXPECT_EQ(match("a{1,3}", "aaaa"), 3u);
  EXPECT_EQ(match("a{2,3}", "a"), 0u);
  EXPECT_EQ(match("[ab]*[bc]+", "abab"), 4u) << "gives back what the rest needs";
}

TEST(SplitPattern, NothingMatchesNothing) {
  EXPECT_EQ(match("a", "b"), 0u);
  EXPECT_EQ(match("a", ""), 0u);
  EXPECT_EQ(match("a*", "b"), 0u) << "an empty match is none";
}

TEST(SplitPattern, LookAheadSeesOneCodePointAndTheEnd) {
  EXPECT_EQ(match("\\s+(?!\\S)", "   x"), 2u);
  EXPECT_EQ(match("\\s+(?!\\S)", "   "), 3u);
  EXPECT_EQ(match("\\s+(?!\\S)", " x"), 0u);
  EXPECT_EQ(match("a(?=b)", "ab"), 1u);
  EXPECT_EQ(match("a(?=b)", "a"), 0u);
  EXPECT_EQ(match("a$", "a"), 1u);
  EXPECT_EQ(match("a$", "ab"), 0u);
}

TEST(SplitPattern, ClassesAndProperties) {
  EXPECT_EQ(match("\\p{L}+",
                  "a\xC3\xA9\xE4\xB8\xAD"
                  "1"),
            6u);
  EXPECT_EQ(match("[^\\s\\p{L}]+", "1!\xC2\xA0"), 2u);
  EXPECT_EQ(match("[\\p{L}&&[^\\p{Han}]]+", "ab\xE4\xB8\xAD"), 2u);
  EXPECT_EQ(match("[!-/:-@\\[-`{-~]+", "^[`~a"), 4u) << "an escaped sign may begin a range";
  EXPECT_EQ(match("[a\\-z]+", "-zb"), 2u);
  EXPECT_EQ(match("[\\x{4E00}-\\x{9FA5}]+", "\xE4\xB8\xAD\xE3\x81\x82"), 3u);
  EXPECT_EQ(match("\\d+", "7\xD9\xA3\xC2\xBD"), 3u) << "decimal digits, not fractions";
}

TEST(SplitPattern, IgnoredCaseHasTheLongSToo) {
  EXPECT_EQ(match("(?i:'s|'ll)", "'S"), 2u);
  EXPECT_EQ(match("(?i:'s|'ll)", "'lL"), 3u);
  EXPECT_EQ(match("(?i:'s|'ll)", "'\xC5\xBF"), 3u);
  EXPECT_EQ(match("'s", "'S"), 0u);
}

TEST(SplitPattern, BytesThatAreNotUtf8AreOtherSigns) {
  EXPECT_EQ(match("[^\\s\\p{L}]+", "\xFF\x80\xE2\x82 "), 4u);
  EXPECT_EQ(match("\\p{L}+", "\xFF"), 0u);
}

TEST(SplitPattern, WhatIsNotUnderstoodIsAnErrorThatSaysWhere) {
  for (const std::string_view pattern :
       {"(a",     "a)",     "[a", "\\q",   "\\p{Klingon}", "\\p{L",  "a{",          "a{3,2}", "a{0}", "a{99999999999}",
        "(?!ab)", "(?!a)b", "\\", "[b-a]", "[\\s-a]",      "\\x{G}", "\\x{110000}", "(?=",    "(?!",  "(?i:",
        "(?:",    "(",      "[",  "[^",    "[a-",          "[a-\\"})
    EXPECT_ERROR(SplitPattern::compile(pattern), "at byte");
}

std::string nested(int n, const std::string& begin, const std::string& end) {
  std::string text = "a";
  for (int i = 0; i < n; ++i) text = begin + text + end;
  return text;
}

TEST(SplitPattern, NestingHasALimit) {
  EXPECT_EQ(match(nested(63, "(?:", ")"), "aa"), 1u);
  EXPECT_ERROR(SplitPattern::compile(nested(64, "(?:", ")")), "too deep");
  EXPECT_ERROR(SplitPattern::compile(nested(100'000, "(", ")")), "too deep");
  EXPECT_EQ(match("[" + nested(63, "a&&[", "]") + "]", "aa"), 1u);
  EXPECT_ERROR(SplitPattern::compile("[" + nested(64, "a&&[", "]") + "]"), "too deep");
  // Groups beside each other are not nested.
  std::string many;
  for (int i = 0; i < 100; ++i) many += "(?:a)?[b&&[b]]?";
  EXPECT_EQ(match(many, "abab"), 4u);
}

TEST(SplitPattern, RepeatsOfRepeatsHaveALimit) {
  EXPECT_ERROR(SplitPattern::compile(nested(20, "(?:", "){1000}")), "more than 65536 steps");
  EXPECT_ERROR(SplitPattern::compile(nested(20, "(?:", "){0,1000}")), "more than 65536 steps");
  EXPECT_EQ(match("(?:(?:(?:(?:(?:){1000}){1000}){1000}){1000}){1000}a", "aa"), 1u);
}

TEST(SplitPattern, TenThousandRepeatsAreMatchedWithoutAStack) {
  EXPECT_EQ(match("(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+", std::string(1'000'000, 'a')), 1'000'000u);
}

}  // namespace
}  // namespace tessera::text
