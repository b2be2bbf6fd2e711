// The rows that the line editor shows, and the bytes that turn one set of rows on the screen into the next. Only the
// line editor uses them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/terminal.h"

namespace tessera::cli {

enum class FrameStyle : uint8_t { text, prompt, dim };

/// A cluster on the screen.
struct FrameCell {
  std::string bytes;
  int n_columns = 0;
  FrameStyle style = FrameStyle::text;
  bool operator==(const FrameCell&) const = default;
};

using FrameRow = std::vector<FrameCell>;

/// Rows from the top of the edited text down, and the cursor's place in them.
struct EditFrame {
  std::vector<FrameRow> rows;
  size_t cursor_row = 0;
  int cursor_column = 0;
};

int columns_of(const FrameRow& row);

/// Lays text out in rows of a width. A character that does not fit begins the next row.
class FrameBuilder {
 public:
  explicit FrameBuilder(int n_columns) : n_columns_(n_columns) { frame_.rows.emplace_back(); }

  /// Appends printable text without line breaks.
  void put(std::string_view text, FrameStyle style);
  /// Appends as much of the text as the row has room for.
  void put_clipped(std::string_view text, FrameStyle style);
  void break_row();
  /// The cursor stands before the next character. Behind a full row it stands in a new row.
  void mark_cursor();
  EditFrame take() { return std::move(frame_); }

 private:
  int n_columns_;
  int column_ = 0;
  EditFrame frame_;
};

/// Keeps the part of a frame around the cursor if it has more rows than the screen. `top` is the first row that was
/// kept last time, and becomes the one kept now.
void clip_to_screen(EditFrame& frame, int n_rows, size_t& top);

/// Writes frames one after the other and remembers the last. A row is never left to the terminal's own wrapping: each
/// one begins with an explicit move.
class FrameWriter {
 public:
  /// prompt_sgr: parameters such as "1;34"; empty: the prompt looks like text.
  explicit FrameWriter(std::string prompt_sgr) : prompt_sgr_(std::move(prompt_sgr)) {}

  /// Returns the bytes that show the frame in place of the last one.
  std::string draw(const EditFrame& next);
  /// Returns the bytes that erase the last frame and leave the cursor at its start. Terminals reflow what they show when
  /// their size changes, so the place of the start depends on the present size.
  std::string erase(ScreenSize size);
  /// The next frame begins in the cursor's row. Nothing is known about the screen.
  void forget();
  /// The cursor's column in the last frame; -1: unknown.
  int cursor_column() const { return column_; }

 private:
  void move_to(size_t row, int column, std::string& out);
  void draw_row(size_t index, const FrameRow& next, std::string& out);
  void put_cell(const FrameCell& cell, FrameStyle& style, std::string& out) const;

  std::string prompt_sgr_;
  std::vector<FrameRow> rows_;  // on the screen
  size_t row_ = 0;              // of the cursor
  int column_ = 0;              // of the cursor; -1: unknown
};

}  // namespace tessera::cli
