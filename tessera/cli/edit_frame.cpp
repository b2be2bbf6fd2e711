#include "tessera/cli/edit_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/cli/cluster.h"
#include "tessera/cli/control_sequences.h"

namespace tessera::cli {

namespace {

// The rows that cells take on a screen of this width.
size_t n_reflowed_rows(std::span<const FrameCell> cells, int n_columns) {
  size_t n_rows = 1;
  int column = 0;
  for (const FrameCell& cell : cells) {
    if (column + cell.n_columns > n_columns) {
      ++n_rows;
      column = 0;
    }
    column += cell.n_columns;
  }
  return n_rows;
}

}  // namespace

int columns_of(const FrameRow& row) {
  int n = 0;
  for (const FrameCell& cell : row) n += cell.n_columns;
  return n;
}

void FrameBuilder::put(std::string_view text, FrameStyle style) {
  while (!text.empty()) {
    const Cluster cluster = first_cluster(text);
    if (column_ + cluster.n_columns > n_columns_) break_row();
    frame_.rows.back().push_back({std::string(cluster.bytes), cluster.n_columns, style});
    column_ += cluster.n_columns;
    text.remove_prefix(cluster.bytes.size());
  }
}

void FrameBuilder::put_clipped(std::string_view text, FrameStyle style) {
  while (!text.empty()) {
    const Cluster cluster = first_cluster(text);
    if (column_ + cluster.n_columns > n_columns_) return;
    put(cluster.bytes, style);
    text.remove_prefix(cluster.bytes.size());
  }
}

void FrameBuilder::break_row() {
  frame_.rows.emplace_back();
  column_ = 0;
}

void FrameBuilder::mark_cursor() {
  if (column_ >= n_columns_) break_row();
  frame_.cursor_row = frame_.rows.size() - 1;
  frame_.cursor_column = column_;
}

void clip_to_screen(EditFrame& frame, int n_rows, size_t& top) {
  const size_t n_shown = to_size(std::max(n_rows, 1));
  if (frame.rows.size() <= n_shown) {
    top = 0;
    return;
  }
  const size_t n_above = frame.cursor_row + 1 > n_shown ? frame.cursor_row + 1 - n_shown : 0;
  top = std::clamp(top, n_above, std::min(frame.cursor_row, frame.rows.size() - n_shown));
  frame.rows.erase(frame.rows.begin() + static_cast<std::ptrdiff_t>(top + n_shown), frame.rows.end());
  frame.rows.erase(frame.rows.begin(), frame.rows.begin() + static_cast<std::ptrdiff_t>(top));
  frame.cursor_row -= top;
}

void FrameWriter::forget() {
  rows_.clear();
  row_ = 0;
  column_ = -1;
}

void FrameWriter::move_to(size_t row, int column, std::string& out) {
  if (row < row_) fmt::format_to(std::back_inserter(out), "\x1b[{}A", row_ - row);
  if (row > row_ && row < rows_.size()) fmt::format_to(std::back_inserter(out), "\x1b[{}B", row - row_);
  if (row > row_ && row >= rows_.size()) {  // a new row: the screen may have to scroll
    const size_t last = rows_.empty() ? 0 : rows_.size() - 1;
    if (last > row_) fmt::format_to(std::back_inserter(out), "\x1b[{}B", last - row_);
    for (size_t i = std::max(last, row_); i < row; ++i) out += "\r\n";
    column_ = 0;
  }
  row_ = row;
  if (column == column_) return;
  if (column == 0) {
    out += '\r';
  } else {
    fmt::format_to(std::back_inserter(out), "\x1b[{}G", column + 1);
  }
  column_ = column;
}

void FrameWriter::put_cell(const FrameCell& cell, FrameStyle& style, std::string& out) const {
  if (cell.style != style) {
    const bool is_prompt = cell.style == FrameStyle::prompt;
    const bool is_plain = cell.style == FrameStyle::text || (is_prompt && prompt_sgr_.empty());
    out += "\x1b[0";
    if (!is_plain) out += ';' + (is_prompt ? prompt_sgr_ : std::string("2"));
    out += 'm';
    style = cell.style;
  }
  out += cell.bytes;
}

void FrameWriter::draw_row(size_t index, const FrameRow& next, std::string& out) {
  static const FrameRow kNone;
  const bool is_new = index >= rows_.size();
  const FrameRow& old = is_new ? kNone : rows_[index];
  if (!is_new && old == next) return;
  size_t same = static_cast<size_t>(std::ranges::mismatch(old, next).in1 - old.begin());
  while (same > 0 && same < next.size() && next[same].n_columns == 0) --same;  // a mark needs its letter
  int column = 0;
  for (size_t i = 0; i < same; ++i) column += next[i].n_columns;
  const int n_old = columns_of(old), n_next = columns_of(next);
  move_to(index, column, out);
  FrameStyle style = FrameStyle::text;
  for (size_t i = same; i < next.size(); ++i) put_cell(next[i], style, out);
  if (style != FrameStyle::text) out += "\x1b[0m";
  column_ = same < next.size() ? -1 : column_;  // behind a full row the cursor's place depends on the terminal
  if (n_old > n_next) out += kEraseRowEnd;
  if (is_new) rows_.resize(index + 1);
  rows_[index] = next;
}

std::string FrameWriter::draw(const EditFrame& next) {
  std::string out;
  if (rows_.empty()) {
    out += "\r";
    out += kEraseBelow;
    column_ = 0;
  }
  if (rows_.size() > next.rows.size()) {
    move_to(next.rows.size(), 0, out);
    out += kEraseBelow;
    rows_.resize(next.rows.size());
  }
  for (size_t i = 0; i < next.rows.size(); ++i) draw_row(i, next.rows[i], out);
  move_to(next.cursor_row, next.cursor_column, out);
  return out;
}

std::string FrameWriter::erase(ScreenSize size) {
  size_t n_above = 0;
  for (size_t i = 0; i < row_ && i < rows_.size(); ++i) n_above += n_reflowed_rows(rows_[i], size.n_columns);
  if (row_ < rows_.size()) {
    size_t n_before = 0;
    for (int column = 0; n_before < rows_[row_].size() && column < column_; ++n_before)
      column += rows_[row_][n_before].n_columns;
    // The cursor stands on the next cell, so that cell decides in which row it is.
    n_before = std::min(n_before + 1, rows_[row_].size());
    n_above += n_reflowed_rows(std::span(rows_[row_]).first(n_before), size.n_columns) - 1;
  }
  n_above = std::min(n_above, to_size(std::max(size.n_rows - 1, 0)));
  std::string out = "\r";
  if (n_above > 0) fmt::format_to(std::back_inserter(out), "\x1b[{}A", n_above);
  out += kEraseBelow;
  forget();
  return out;
}

}  // namespace tessera::cli
