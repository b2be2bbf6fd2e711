// Options of the view of replies, and the sizes that follow from the window. The parts of the view share them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tessera::cli {

enum class Markup : uint8_t {
  plain,   // the bytes as they come, for a pipe
  text,    // wrapped and with control characters escaped, but without Markdown
  styled,  // Markdown is shown
};

enum class ThinkingView : uint8_t { show, hide };

struct ViewOptions {
  Markup markup = Markup::styled;
  bool has_colour = true;  // false: no colour, bold, dim and the like
  ThinkingView thinking = ThinkingView::show;
  int64_t n_columns = 80;  // of the window
  int64_t n_rows = 24;
};

/// The window as the view uses it, and how much text may change after it was shown. Such text is given a meaning before
/// it leaves the screen, at places that only the text itself determines: so the result does not depend on its pieces.
/// The sizes leave room for what rows lose at the ends of words.
struct ViewSizes {
  int64_t n_columns;
  int64_t n_rows;
  size_t n_line_bytes;   // of a line that is taken as a whole
  size_t n_open_cells;   // of a paragraph behind an emphasis mark without an end
  size_t n_check_cells;  // between two looks for text that is certain
  size_t n_table_rows;   // of a table while the width of its columns may change

  explicit ViewSizes(const ViewOptions& options)
      : n_columns(std::clamp<int64_t>(options.n_columns, 8, 1000)),
        n_rows(std::clamp<int64_t>(options.n_rows, 4, 200)) {
    const auto n_cells = static_cast<size_t>(n_columns * n_rows);
    n_line_bytes = std::clamp<size_t>(n_cells / 6, 32, 4096);
    n_open_cells = std::clamp<size_t>(n_cells / 4, 32, 4096);
    n_check_cells = n_open_cells / 4;
    n_table_rows = static_cast<size_t>(std::max<int64_t>(1, n_rows - 3));
  }
};

}  // namespace tessera::cli
