// The screen of each block of Markdown.
#include <gtest/gtest.h>

#include "tests/cli/view_support.h"

namespace tessera {
namespace {

using testing::window;

std::string shown_blocks(std::string_view text, int64_t n_columns = 40, bool has_colour = true) {
  return testing::show(text, window(n_columns, 24, has_colour)).text();
}

TEST(MarkdownBlocks, WordsWrapAtTheWidth) {
  EXPECT_EQ(shown_blocks("one two three four", 10), "one two\nthree four");
  EXPECT_EQ(shown_blocks("one abcdefghijklmn two", 10), "one\nabcdefghij\nklmn two");
  EXPECT_EQ(shown_blocks("日本語のテキストです", 10), "日本語のテ\nキストです");
  EXPECT_EQ(shown_blocks("日本語、「テキスト」", 8), "日本語、\n「テキス\nト」");
  EXPECT_EQ(shown_blocks("a日b本", 8), "a日b本");
}

TEST(MarkdownBlocks, LineBreaksOfAParagraphStay) {
  EXPECT_EQ(shown_blocks("roses  \nviolets\\\nsugar\nyou"), "roses\nviolets\nsugar\nyou");
}

TEST(MarkdownBlocks, EmptyLinesBetweenBlocksBecomeOne) {
  EXPECT_EQ(shown_blocks("\n\na\n\n\n\nb\n\n"), "a\n\nb");
  EXPECT_EQ(shown_blocks("# a\nb"), "a\nb");
}

TEST(MarkdownBlocks, HeadingsAreBold) {
  const auto reply = testing::show("# One\n\n### Two ##\n\nThree\n---\n\nfour");
  EXPECT_EQ(reply.text(), "One\n\nTwo\n\nThree\n\nfour");
  EXPECT_EQ(reply.look("One"), "bold underline");
  EXPECT_EQ(reply.look("Two"), "bold");
  EXPECT_EQ(reply.look("Three"), "bold");
  EXPECT_EQ(reply.look("four"), "");
  EXPECT_EQ(shown_blocks("#No\n####### no\n\\# no"), "#No\n####### no\n# no");
}

TEST(MarkdownBlocks, WithoutColourMarksStayReadable) {
  const auto reply = testing::show("# One\n\n**b** *i* `c` ~~s~~\n\n```py\nx\n```\n\nTwo\n===", window(40, 24, false));
  EXPECT_EQ(reply.text(), "# One\n\nb i `c` ~~s~~\n\n```py\nx\n```\n\n# Two");
  EXPECT_EQ(reply.written.find("\x1b[0"), std::string::npos);
}

TEST(MarkdownBlocks, ListsHangAndNest) {
  EXPECT_EQ(shown_blocks("- one two three\n  - four five six\n- seven", 14),
            "• one two\n  three\n  • four five\n    six\n• seven");
  EXPECT_EQ(shown_blocks("1. a\n1. b\n1. c"), "1. a\n2. b\n3. c");
  EXPECT_EQ(shown_blocks("7) a\n9) b"), "7) a\n8) b");
  EXPECT_EQ(shown_blocks("9. a\n10. b\n    c"), "9. a\n10. b\n    c");
  EXPECT_EQ(shown_blocks("- - a\n  - b"), "• • a\n  • b");
  EXPECT_EQ(shown_blocks("- a\n\n- b"), "• a\n\n• b");
  EXPECT_EQ(shown_blocks("-\n- b\n-"), "•\n• b\n•");
  EXPECT_EQ(shown_blocks("- [ ] a\n- [x] b"), "• [ ] a\n• [x] b");
  EXPECT_EQ(shown_blocks("1. a\n  - b\n2. c"), "1. a\n   • b\n2. c") << "two blanks are enough inside a number";
  EXPECT_EQ(shown_blocks("- a\n        - b"), "• a\n  • b");
  EXPECT_EQ(shown_blocks("- a\n\n  b\n\nc"), "• a\n\n  b\n\nc");
  EXPECT_EQ(shown_blocks("- a\nlazy"), "• a\n  lazy");
  EXPECT_EQ(shown_blocks("1. a\n\ntext\n\n5. b"), "1. a\n\ntext\n\n5. b");
  EXPECT_EQ(shown_blocks("- x\n-  \n\n  b"), "• x\n• b") << "no empty row between a marker and its text";
  EXPECT_EQ(shown_blocks("a\n- ```\n  x"), "a\n• x");
}

TEST(MarkdownBlocks, NumbersOrMarksInsideAParagraphAreText) {
  EXPECT_EQ(shown_blocks("It was\n1999. A year"), "It was\n1999. A year");
  EXPECT_EQ(shown_blocks("a -b\n-c"), "a -b\n-c");
  EXPECT_EQ(shown_blocks("1234567890. a"), "1234567890. a");
}

TEST(MarkdownBlocks, QuotesHaveABar) {
  EXPECT_EQ(shown_blocks("> one two three four\nlazy\n\nout", 12), "│ one two\n│ three four\n│ lazy\n\nout");
  EXPECT_EQ(shown_blocks("> a\n> > b\n>\n> c"), "│ a\n│ │ b\n│\n│ c");
  EXPECT_EQ(shown_blocks("> a\n\n> b"), "│ a\n\n│ b");
  EXPECT_EQ(shown_blocks("- > a\n  > b"), "• │ a\n  │ b");
  EXPECT_EQ(testing::show("> a").look("│"), "dim");
}

TEST(MarkdownBlocks, FencedCodeIsShownAsItIs) {
  const auto reply = testing::show("text\n```c++ x\nint  *a;\n\n  # no *heading*\n```\nmore");
  EXPECT_EQ(reply.text(), "text\n\nc++\nint  *a;\n\n  # no *heading*\n\nmore");
  EXPECT_EQ(reply.look("c++"), "dim");
  EXPECT_EQ(reply.look("int"), "");
  EXPECT_EQ(shown_blocks("~~~\n```\n~~\n~~~~\na"), "```\n~~\n\na");
  EXPECT_EQ(shown_blocks("```\na"), "a");
  EXPECT_EQ(shown_blocks("```a`b```"), "```a`b```");
}

TEST(MarkdownBlocks, CodeIsCutAtTheWidth) {
  EXPECT_EQ(shown_blocks("```\nab cd ef gh\n```", 8), "ab cd ef\n gh");
  EXPECT_EQ(shown_blocks("- ```\n  abcdefgh\n  ```", 8), "• abcdef\n  gh");
  EXPECT_EQ(shown_blocks("```\nabcdefg日\n```", 8), "abcdefg\n日");
}

TEST(MarkdownBlocks, ALineBelowALongParagraphMakesNoHeading) {
  std::string words = "first";
  for (int i = 0; i < 300; ++i) words += " word";
  const std::string text = testing::show(words + "\n----\nafter", window(80, 24)).text();
  EXPECT_TRUE(text.starts_with("first word")) << text;
  EXPECT_NE(text.find("────"), std::string::npos) << text;
}

TEST(MarkdownBlocks, CodeInsideAnItemNeedsNoIndent) {
  EXPECT_EQ(shown_blocks("1. a\n   ```\nx\n   ```\n2. b"), "1. a\n\n   x\n\n2. b");
}

TEST(MarkdownBlocks, FenceIndentIsRemoved) { EXPECT_EQ(shown_blocks("  ```\n    x\n y\n  ```"), "  x\ny"); }

TEST(MarkdownBlocks, IndentedCodeKeepsItsIndent) {
  EXPECT_EQ(shown_blocks("a\n\n    x  *y*\n\n\n    z\n\nb"), "a\n\n    x  *y*\n\n\n    z\n\nb");
  EXPECT_EQ(shown_blocks("a\n    b"), "a\nb");
}

TEST(MarkdownBlocks, RulesSpanTheWindow) {
  EXPECT_EQ(shown_blocks("a\n\n---\n***\n- - -", 8), "a\n\n────────\n────────\n────────");
  EXPECT_EQ(shown_blocks("--"), "--");
}

TEST(MarkdownBlocks, FormulaBlocksKeepTheirLines) {
  EXPECT_EQ(shown_blocks("a\n\\[\nx_1 *\n  y* \\\\\n\\]\nb"), "a\n\\[\nx_1 *\n  y* \\\\\n\\]\nb");
  EXPECT_EQ(shown_blocks("$$x*y*z$$\n*b*"), "$$x*y*z$$\nb");
  EXPECT_EQ(shown_blocks("$$\n*a*\n\n*b*"), "$$\n*a*\n\nb") << "an empty line ends a formula without an end";
}

TEST(MarkdownBlocks, TabsBecomeBlanks) {
  EXPECT_EQ(shown_blocks("```\n\tx\ny\tz\n```"), "    x\ny   z");
  EXPECT_EQ(shown_blocks("-\ta"), "• a");
}

TEST(MarkdownBlocks, LineEndsMayHaveACarriageReturn) {
  EXPECT_EQ(shown_blocks("a\r\n\r\nb\r\nc\rd\r"), "a\n\nb\nc^Md^M");
}

TEST(MarkdownBlocks, DeepNestingIsText) {
  std::string quotes, bars;
  for (int i = 0; i < 20; ++i) quotes += '>';
  for (int i = 0; i < 16; ++i) bars += "│ ";
  EXPECT_EQ(shown_blocks(quotes + "a", 80), bars + ">>>>a");
}

TEST(MarkdownBlocks, NarrowWindowsLeaveRoomForText) {
  EXPECT_EQ(shown_blocks("> > > > > > a b", 12), "│ │ │ a b");
  EXPECT_EQ(shown_blocks("123456789. a b c", 12), "a b c");
}

TEST(MarkdownBlocks, LongLinesAreTakenByTheirStart) {
  std::string words;
  for (int i = 0; i < 300; ++i) words += "word ";
  const std::string heading = testing::show("# " + words, window(80, 24)).text();
  EXPECT_EQ(heading.find('#'), std::string::npos);
  const auto item = testing::show("- " + words + "*end*", window(80, 24));
  EXPECT_EQ(item.text().substr(0, 12), "• word wor");
  EXPECT_EQ(item.look("end"), "italic");
  const auto code = testing::show("```\n" + words + "\nnext", window(80, 24)).text();
  EXPECT_TRUE(code.ends_with("\nnext")) << code;
  const auto title = testing::show("# " + words + "\nnext", window(80, 24));
  EXPECT_TRUE(title.text().ends_with("\nnext"));
  EXPECT_EQ(title.look("next"), "");
  const auto row = testing::show("| " + words + " | b |\n|---|---|\n| c | d |", window(80, 24)).text();
  EXPECT_TRUE(row.starts_with("┌")) << "the first line of a table may be long";
  EXPECT_EQ(testing::show(std::string(500, ' ') + "text", window(80, 24)).text(), "text");
}

}  // namespace
}  // namespace tessera
