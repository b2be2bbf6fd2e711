#include "tessera/cli/word_wrap.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::cli {
namespace {

std::string wrap_row_text(const ScreenRow& row) {
  std::string out;
  for (const StyledRun& run : row.runs) out += run.text;
  return out;
}

std::string wrap_rows(WordWrap& wrap) {
  std::string out;
  for (const ScreenRow& row : wrap.take_rows()) out += wrap_row_text(row) + "|";
  return out;
}

std::string wrap_text(std::string_view text, int64_t n_columns, WrapMode mode = WrapMode::words) {
  WordWrap wrap(n_columns, mode);
  wrap.add(text, {});
  wrap.end_line();
  return wrap_rows(wrap);
}

ScreenRow wrap_prefix(std::string_view text) {
  ScreenRow row;
  row.append_visible(text, {.dim = true});
  return row;
}

TEST(WordWrap, BlanksAtTheBreakAreDropped) {
  EXPECT_EQ(wrap_text("aa bb  cc", 5), "aa bb|cc|");
  EXPECT_EQ(wrap_text("aa   bb", 4), "aa|bb|");
  EXPECT_EQ(wrap_text("aa  bb", 6), "aa  bb|");
  EXPECT_EQ(wrap_text("  aa bb ", 5), "  aa|bb|");
  EXPECT_EQ(wrap_text("", 5), "|");
  EXPECT_EQ(wrap_text("          a", 5), "a|") << "blanks alone fill no row";
}

TEST(WordWrap, LongWordsAreCutAtTheWidth) {
  EXPECT_EQ(wrap_text("abcdefgh", 3), "abc|def|gh|");
  EXPECT_EQ(wrap_text("a bcdefgh", 3), "a|bcd|efg|h|");
  EXPECT_EQ(wrap_text("abc", 3), "abc|");
}

TEST(WordWrap, WideTextBreaksAnywhereButAtPoints) {
  EXPECT_EQ(wrap_text("漢字漢字", 5), "漢字|漢字|");
  EXPECT_EQ(wrap_text("漢字。漢", 4), "漢|字。|漢|");
  EXPECT_EQ(wrap_text("漢「字", 4), "漢|「字|");
  EXPECT_EQ(wrap_text("ab漢cd", 4), "ab漢|cd|");
}

TEST(WordWrap, ExactModeKeepsBlanks) {
  EXPECT_EQ(wrap_text("  ab  cd ", 4, WrapMode::exact), "  ab|  cd| |");
  EXPECT_EQ(wrap_text("abc漢", 4, WrapMode::exact), "abc|漢|");
}

TEST(WordWrap, PrefixesStandBeforeTheRows) {
  WordWrap wrap(6, WrapMode::words, wrap_prefix("1. "), wrap_prefix("   "));
  wrap.add("ab cd", {});
  wrap.end_line();
  wrap.end_line();
  EXPECT_EQ(wrap_rows(wrap), "1. ab|   cd|   |");
}

TEST(WordWrap, StylesStayWithTheirText) {
  WordWrap wrap(20, WrapMode::words);
  wrap.add("a ", {});
  wrap.add("b c", {.bold = true});
  wrap.add(" d", {});
  wrap.end_line();
  const auto rows = wrap.take_rows();
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_EQ(rows[0].runs.size(), 3u);
  EXPECT_EQ(rows[0].runs[1].text, "b c");
  EXPECT_TRUE(rows[0].runs[1].style.bold);
  EXPECT_EQ(rows[0].n_columns, 7);
}

TEST(WordWrap, MarksJoinTheirLetterAcrossPieces) {
  WordWrap wrap(2, WrapMode::exact);
  for (const std::string_view piece : {"a", "\xCC\x81", "b", "\xCC\x81", "c"}) wrap.add(piece, {});
  wrap.end_line();
  EXPECT_EQ(wrap_rows(wrap),
            "a\xCC\x81"
            "b\xCC\x81|c|");
}

TEST(WordWrap, CharactersWithoutWidthEndARowInTheEnd) {
  std::string marks;
  for (int i = 0; i < 5000; ++i) marks += "\xE2\x80\x8B";
  for (const WrapMode mode : {WrapMode::words, WrapMode::exact}) {
    WordWrap wrap(10, mode);
    wrap.add(marks, {});
    wrap.end_line();
    EXPECT_GT(wrap.take_rows().size(), 10u);
  }
}

TEST(WordWrap, RowsDoNotDependOnThePieces) {
  constexpr std::string_view kParts[] = {
      "a", "bc", " ", "  ", "漢", "。", "「", "e\xCC\x81", "👩\xE2\x80\x8D👩", "🇩🇪", "\x1b", "\xC2\x9b", "word"};
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += kParts[random() % std::size(kParts)];
    WordWrap wrap(9, round % 2 == 0 ? WrapMode::words : WrapMode::exact);
    for (size_t i = 0; i < text.size();) {
      size_t n = 1;
      while (i + n < text.size() && (static_cast<uint8_t>(text[i + n]) & 0xC0) == 0x80) ++n;
      wrap.add(std::string_view(text).substr(i, n), {});
      i += n;
    }
    wrap.end_line();
    EXPECT_EQ(wrap_rows(wrap), wrap_text(text, 9, round % 2 == 0 ? WrapMode::words : WrapMode::exact)) << text;
  }
}

TEST(WordWrap, ResizeLaysTheOpenRowOutAnew) {
  WordWrap wrap(20, WrapMode::words, wrap_prefix("* "), wrap_prefix("  "));
  wrap.add("one two three ", {});
  wrap.resize(8, wrap_prefix("* "), wrap_prefix("  "));
  wrap.add("four", {});
  wrap.end_line();
  EXPECT_EQ(wrap_rows(wrap), "* one|  two|  three|  four|");
  WordWrap wider(8, WrapMode::words);
  wider.add("one two ", {});
  wider.resize(20, {}, {});
  wider.add("three", {});
  wider.end_line();
  EXPECT_EQ(wrap_rows(wider), "one two three|");
}

}  // namespace
}  // namespace tessera::cli
