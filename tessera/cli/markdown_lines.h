// The marks at the start of a line of Markdown: quotes, items of lists, headings, fences, rules. Lines hold no tabs.
// The parser of blocks calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::cli {

/// The number of blanks at the start.
size_t n_indent(std::string_view line);
bool is_blank_line(std::string_view line);

/// `***`, `- - -`, `___`.
bool is_rule_line(std::string_view line);

struct HeadingMark {
  int level = 0;       // 1 to 6; 0: no heading
  size_t n_bytes = 0;  // of the marks and the blanks behind them
};
HeadingMark read_heading(std::string_view line);
/// Returns the text of a heading without the marks that close it.
std::string_view without_closing_marks(std::string_view text);

/// 1 for a line of `=`, 2 for one of `-`, else 0.
int underline_level(std::string_view line);

struct FenceMark {
  char mark = 0;         // '`' or '~'; 0: no fence
  size_t n_marks = 0;    // at least 3
  size_t n_indent = 0;   // before them
  std::string language;  // the first word behind them
  std::string source;    // the line
};
FenceMark read_fence(std::string_view line);
bool closes_fence(std::string_view line, const FenceMark& fence);

struct ItemMark {
  char mark = 0;          // '-', '*', '+', '.' or ')'; 0: no item
  uint64_t number = 0;    // of '.' and ')'
  size_t n_mark = 0;      // bytes of the mark
  size_t n_bytes = 0;     // of the mark and the blanks that belong to it
  bool is_empty = false;  // nothing follows

  bool is_numbered() const { return mark == '.' || mark == ')'; }
};
/// Reads the mark at the start of the line, which begins with no blank.
ItemMark read_item(std::string_view line);

/// Returns how a formula that begins on this line ends: "$$", "\\]", or "" if none begins.
std::string_view formula_end(std::string_view line);

/// True if a line that begins so may still become a mark of a block, and so has no meaning yet.
bool may_be_block_mark(std::string_view line);

}  // namespace tessera::cli
