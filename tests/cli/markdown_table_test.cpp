#include "tessera/cli/markdown_table.h"

#include <gtest/gtest.h>

#include "tests/cli/view_support.h"

namespace tessera {
namespace {

using testing::window;

std::string shown_table(std::string_view text, int64_t n_columns = 40, int64_t n_rows = 24) {
  return testing::show(text, window(n_columns, n_rows)).text();
}

TEST(MarkdownTable, ColumnsAreAligned) {
  EXPECT_EQ(shown_table("| L | R | C |\n|:--|--:|:-:|\n| a | b | c |\n| long | wide | midst |"),
            "┌──────┬──────┬───────┐\n"
            "│ L    │    R │   C   │\n"
            "├──────┼──────┼───────┤\n"
            "│ a    │    b │   c   │\n"
            "│ long │ wide │ midst │\n"
            "└──────┴──────┴───────┘");
}

TEST(MarkdownTable, CellsHoldInlineMarkdown) {
  const auto reply = testing::show("|a|\n|-|\n|**b** 漢|\n|`c` \\| d|");
  EXPECT_EQ(reply.text(), "┌─────────┐\n│ a       │\n├─────────┤\n│ b 漢    │\n│ `c` | d │\n└─────────┘");
  EXPECT_EQ(reply.look("a "), "bold");
  EXPECT_EQ(reply.look("b "), "bold");
  EXPECT_EQ(reply.look("│"), "dim");
}

TEST(MarkdownTable, RowsHaveTheCellsOfTheHeader) {
  EXPECT_EQ(shown_table("a | b\n--|--\n1\n2 |\n3 | 4 | 5"),
            "┌───┬───┐\n│ a │ b │\n├───┼───┤\n└───┴───┘\n1\n2 |\n3 | 4 | 5")
      << "a line without bars ends the table";
  EXPECT_EQ(shown_table("a | b\n--|--\n2 |\n3 | 4 | 5"),
            "┌───┬───┐\n│ a │ b │\n├───┼───┤\n│ 2 │   │\n│ 3 │ 4 │\n└───┴───┘");
}

TEST(MarkdownTable, ATableMayFollowALineOfText) {
  EXPECT_EQ(shown_table("text:\n| a |\n|---|\n| 1 |\nmore"), "text:\n┌───┐\n│ a │\n├───┤\n│ 1 │\n└───┘\nmore");
  EXPECT_EQ(shown_table("- | a |\n  |---|\n  | 1 |"), "• ┌───┐\n  │ a │\n  ├───┤\n  │ 1 │\n  └───┘");
}

TEST(MarkdownTable, WideTablesWrapTheirCells) {
  EXPECT_EQ(shown_table("| a | bbb |\n|---|---|\n| 1 | one two three four |\n| 2 | x |", 20),
            "┌───┬──────────────┐\n"
            "│ a │ bbb          │\n"
            "├───┼──────────────┤\n"
            "│ 1 │ one two      │\n"
            "│   │ three four   │\n"
            "├───┼──────────────┤\n"
            "│ 2 │ x            │\n"
            "└───┴──────────────┘");
}

TEST(MarkdownTable, TooManyColumnsForTheWindowBecomeFields) {
  EXPECT_EQ(shown_table("| aaaa | bbbb | cccc |\n|---|---|---|\n| one two | 2 | 3 |\n| 4 | | 6 |", 20),
            "aaaa: one two\nbbbb: 2\ncccc: 3\n\naaaa: 4\ncccc: 6");
}

TEST(MarkdownTable, LineBreaksOfCells) {
  EXPECT_EQ(shown_table("|a|\n|-|\n|x<br>yy|"), "┌────┐\n│ a  │\n├────┤\n│ x  │\n│ yy │\n└────┘");
}

TEST(MarkdownTable, LinesThatAreNoTableStayText) {
  EXPECT_EQ(shown_table("| a | b |\n|---|"), "| a | b |\n|---|");
  EXPECT_EQ(shown_table("a | b\nc | d"), "a | b\nc | d");
  EXPECT_EQ(shown_table("| a |\n|-x-|"), "| a |\n|-x-|");
  std::string header, delimiter;
  for (int i = 0; i < 65; ++i) header += "|a", delimiter += "|-";
  EXPECT_EQ(shown_table(header + "|\n" + delimiter + "|", 200), header + "|\n" + delimiter + "|");
  EXPECT_NE(shown_table(header.substr(2) + "|\n" + delimiter.substr(2) + "|", 400).find("┌"), std::string::npos);
}

TEST(MarkdownTable, ALongTableFixesItsColumnsBeforeItScrolls) {
  std::string text = "| a | b |\n|---|---|\n";
  for (int i = 0; i < 30; ++i) text += "| " + std::to_string(i) + " | x |\n";
  text += "| last | a long cell comes late |\n";
  const auto whole = testing::show(text, window(40, 10));
  EXPECT_EQ(looks_of(testing::show_bytewise(text, window(40, 10))), looks_of(whole));
  EXPECT_NE(whole.text().find("│ 29      │ x       │"), std::string::npos) << whole.text();
  EXPECT_NE(whole.text().find("│ last    │ a long  │"), std::string::npos) << whole.text();
}

TEST(MarkdownTable, AnUnfinishedRowIsShownAsItIs) {
  testing::ShownReply reply(window(40, 24));
  reply.content("| a | b |\n|---|---|\n| 1 | tw");
  EXPECT_EQ(reply.text(), "┌───┬───┐\n│ a │ b │\n├───┼───┤\n| 1 | tw");
  reply.content("o |\n");
  EXPECT_EQ(reply.text(), "┌───┬─────┐\n│ a │ b   │\n├───┼─────┤\n│ 1 │ two │");
  reply.finish();
  EXPECT_EQ(reply.text(), "┌───┬─────┐\n│ a │ b   │\n├───┼─────┤\n│ 1 │ two │\n└───┴─────┘");
}

TEST(MarkdownTable, DelimiterRows) {
  using cli::CellAlign;
  using Aligns = std::vector<CellAlign>;
  EXPECT_EQ(cli::read_delimiter_row("|:-|-:|:-:|-|"),
            (Aligns{CellAlign::left, CellAlign::right, CellAlign::centre, CellAlign::left}));
  EXPECT_EQ(cli::read_delimiter_row(" -- | :--"), (Aligns{CellAlign::left, CellAlign::left}));
  for (const std::string_view line : {"---", "||", "|:|", "|-|:|", "|- -|", "", "|::-|"})
    EXPECT_FALSE(cli::read_delimiter_row(line)) << line;
}

TEST(MarkdownTable, CellsAreSplitAtBars) {
  using Cells = std::vector<std::string>;
  EXPECT_EQ(cli::split_cells("| a | b |"), (Cells{"a", "b"}));
  EXPECT_EQ(cli::split_cells("a|b"), (Cells{"a", "b"}));
  EXPECT_EQ(cli::split_cells("|a\\|b||"), (Cells{"a|b", ""}));
  EXPECT_EQ(cli::split_cells(std::string(1000, '|')).size(), 65u);
}

}  // namespace
}  // namespace tessera
