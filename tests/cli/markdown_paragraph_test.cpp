#include "tessera/cli/markdown_paragraph.h"

#include <gtest/gtest.h>

namespace tessera::cli {
namespace {

// The rows of a paragraph in a window of 20 columns and 8 rows, joined with "\n". Italic text is in <>.
std::string paragraph_rows(std::string_view text, size_t n_piece_bytes = 1000) {
  const ViewSizes sizes({.n_columns = 20, .n_rows = 8});
  MarkdownParagraph paragraph(WordWrap(20, WrapMode::words), {}, sizes);
  for (size_t i = 0; i < text.size(); i += n_piece_bytes) paragraph.add(text.substr(i, n_piece_bytes));
  paragraph.end(false);
  std::string out;
  for (const ScreenRow& row : paragraph.take_rows()) {
    for (const StyledRun& run : row.runs) out += run.style.italic ? '<' + run.text + '>' : run.text;
    out += '\n';
  }
  return out;
}

TEST(MarkdownParagraph, GivesUpAMarkThatStaysOpen) {
  std::string text = "*open";
  for (int i = 0; i < 60; ++i) text += " word";
  EXPECT_EQ(paragraph_rows(text + "* end").find('<'), std::string::npos) << "its start has left the screen";
  EXPECT_NE(paragraph_rows(text + " *last* end").find("<last>"), std::string::npos);
  EXPECT_NE(paragraph_rows("*open word* end").find("<open word>"), std::string::npos);
}

TEST(MarkdownParagraph, GivesUpBetweenWords) {
  for (size_t n = 0; n < 40; ++n) {
    std::string text = "*" + std::string(n, 'a');
    for (int i = 0; i < 20; ++i) text += " &amp;";
    EXPECT_EQ(paragraph_rows(text).find("amp"), std::string::npos) << n;
  }
}

TEST(MarkdownParagraph, WordsWithoutBlanksKeepTheirMeaning) {
  for (size_t n = 20; n < 60; ++n)
    EXPECT_EQ(paragraph_rows(std::string(n, 'a') + "_b_ c").find('<'), std::string::npos) << n;
  std::string wide;
  for (int i = 0; i < 200; ++i) wide += "漢";
  EXPECT_EQ(paragraph_rows(wide).find('\\'), std::string::npos);
}

TEST(MarkdownParagraph, RowsDoNotDependOnThePieces) {
  const std::string text =
      "one *two three* four [five six](seven) eight `nine ten` eleven *twelve\nthirteen fourteen\nfifteen sixteen\n"
      "seventeen* eighteen **nineteen twenty [and so on and so on until the end of the text that is long";
  for (size_t n = 1; n < 40; ++n) EXPECT_EQ(paragraph_rows(text, n), paragraph_rows(text)) << n;
}

TEST(MarkdownParagraph, KnowsWhetherItIsWhole) {
  const ViewSizes sizes({.n_columns = 20, .n_rows = 8});
  MarkdownParagraph paragraph(WordWrap(20, WrapMode::words), {}, sizes);
  paragraph.add("short");
  EXPECT_TRUE(paragraph.is_whole());
  EXPECT_EQ(paragraph.source(), "short");
  paragraph.add(" and then a longer text");
  EXPECT_FALSE(paragraph.is_whole());
}

}  // namespace
}  // namespace tessera::cli
