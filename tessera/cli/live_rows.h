// The part of the screen that is still being written: writes rows below the text that stands there, and changes the
// last of them. The view of replies calls it with all rows that are not final yet.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/cli/text_style.h"

namespace tessera::cli {

/// Begins at the start of an empty row of the terminal. Each returned string begins and ends in plain style, and leaves
/// the cursor behind the last row. No row relies on the terminal to wrap it.
class LiveRows {
 public:
  LiveRows(int64_t n_columns, int64_t n_rows, bool has_colour)
      : n_columns_(n_columns), n_rows_(n_rows), has_colour_(has_colour) {}

  /// Returns the bytes that replace the open rows shown so far by `final_rows`, which never change again, and then
  /// `open_rows`. What stands there already is not written again. Rows that have left the screen stay as they are.
  std::string update(std::span<const ScreenRow> final_rows, std::span<const ScreenRow> open_rows);
  /// Ends the last row, if there is one. The cursor is at the start of an empty row then.
  std::string finish();
  /// Returns the bytes that erase the open rows, after the terminal got another size and wrapped them anew.
  std::string resize(int64_t n_columns, int64_t n_rows);

 private:
  struct Place {
    size_t row = 0;
    size_t run = 0;     // the first run of the row that differs
    size_t n_same = 0;  // bytes of the run that stand there already
    int64_t column = 0;
  };
  using RowList = std::vector<const ScreenRow*>;

  Place first_difference(const RowList& rows) const;
  bool is_cursor_at(const Place& place) const;
  void move_to(const Place& place, std::string& out) const;
  void write_rest(const RowList& rows, const Place& from, std::string& out) const;
  void set_style(const TextStyle& style, TextStyle& current, std::string& out) const;

  int64_t n_columns_;
  int64_t n_rows_;
  bool has_colour_;
  std::vector<ScreenRow> shown_;  // the open rows; the cursor is behind the last
  bool is_below_text_ = false;    // nothing is open, and the cursor is behind a final row
};

}  // namespace tessera::cli
