// The blocks of Markdown while their text arrives: paragraphs, headings, lists, quotes, code, formulas, tables. The
// view of replies feeds text and gets rows of the screen. The rows do not depend on how the text was split.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/markdown_lines.h"
#include "tessera/cli/markdown_paragraph.h"
#include "tessera/cli/markdown_table.h"

namespace tessera::cli {

inline constexpr size_t kMostBlockNesting = 16;

class MarkdownBlocks {
 public:
  explicit MarkdownBlocks(const ViewOptions& options);

  /// Appends text that ends with a whole character.
  void feed(std::string_view text);
  /// Ends the text.
  void end();
  /// Returns the rows that no later text can change, and forgets them.
  std::vector<ScreenRow> take_rows();
  /// Returns the rows behind them as they look so far. shows_all: also of characters that may be marks of a block.
  std::vector<ScreenRow> open_rows(bool shows_all) const;
  void resize(const ViewOptions& options);

 private:
  enum class Leaf : uint8_t { none, paragraph, heading, fence, indented, formula, table };
  // A quote or an item of a list.
  struct Container {
    bool is_quote = false;
    bool is_numbered = false;
    size_t n_before = 0;  // blanks before the mark
    size_t n_indent = 0;  // columns of the source before the content
    std::string marker;   // as it is shown
    bool is_shown = false;
  };
  struct ListNumber {
    char mark = 0;
    uint64_t next = 0;
  };

  void add_to_line(std::string_view text);
  void add_character(char c);
  void end_line();
  void stream(std::string_view text);
  size_t line_limit() const;

  void process(std::string_view line, bool is_whole);
  size_t match_containers(std::string_view line, size_t& at) const;
  size_t match_container(const Container& container, std::string_view rest) const;
  bool starts_block(std::string_view text) const;
  size_t open_containers(std::string_view line, size_t at);
  size_t open_quote(std::string_view text);
  size_t open_item(std::string_view text, const ItemMark& item);
  void close_containers(size_t n_left);
  void process_blank(size_t n_matched, bool is_quote_closed);

  void process_leaf(std::string_view rest, bool is_whole);
  bool continue_paragraph(std::string_view text, bool is_whole);
  bool open_table(std::string_view text);
  bool make_heading(std::string_view text);
  void add_code(std::string_view rest, bool is_whole);
  void add_indented(std::string_view rest, bool is_whole);
  void add_formula(std::string_view text, bool is_whole);
  void add_text_line(std::string_view text, bool is_whole);
  void open_heading(std::string_view text, const HeadingMark& mark, bool is_whole);
  void open_fence(const FenceMark& fence);
  void open_rule();
  void open_paragraph();
  void flush_header();

  void open_leaf(Leaf leaf);
  void close_leaf(bool is_partial = false);
  void collect();
  void write_gap();
  bool has_hidden_marker() const;
  ScreenRow prefix(bool shows_markers) const;
  void take_prefixes();
  WordWrap make_wrap(WrapMode mode) const { return {sizes_.n_columns, mode, leaf_first_, leaf_rest_}; }
  InlineOptions inline_options(bool is_bold = false) const { return {{.bold = is_bold}, has_colour_, false}; }
  void show_unfinished_line(bool shows_all);

  ViewSizes sizes_;
  bool has_colour_;
  std::vector<Container> containers_;
  std::array<ListNumber, kMostBlockNesting + 1> numbers_{};  // of the list at each depth

  std::string line_;  // the start of a line
  size_t n_line_columns_ = 0;
  bool is_streamed_ = false;  // the line was too long to wait for its end
  bool has_return_ = false;   // a carriage return was the last character

  Leaf leaf_ = Leaf::none;
  ScreenRow leaf_first_, leaf_rest_;  // the prefixes of its rows
  MarkdownParagraph paragraph_;
  bool has_text_ = false;  // the paragraph has a line
  std::string header_;     // the last line of the paragraph, which may be the first of a table
  WordWrap code_;
  FenceMark fence_;
  size_t n_blank_lines_ = 0;  // inside indented code
  std::string_view formula_end_;
  MarkdownTable table_;

  bool has_rows_ = false;  // something stands above
  bool has_gap_ = false;   // an empty row follows
  std::vector<ScreenRow> rows_;
};

}  // namespace tessera::cli
