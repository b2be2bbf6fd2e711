#include "tessera/cli/live_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cli/cluster.h"
#include "tessera/cli/control_sequences.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kNextRow = "\r\n";

void append_up(size_t n_rows, std::string& out) {
  out += '\r';
  if (n_rows > 0) fmt::format_to(std::back_inserter(out), "\x1b[{}A", n_rows);
}

// The bytes at the start of both texts that are the same clusters, and their columns.
std::pair<size_t, int64_t> same_clusters(std::string_view a, std::string_view b) {
  size_t n_bytes = 0;
  int64_t n_columns = 0;
  while (n_bytes < a.size() && n_bytes < b.size()) {
    const Cluster cluster = first_cluster(a.substr(n_bytes));
    if (cluster.bytes != first_cluster(b.substr(n_bytes)).bytes) break;
    n_bytes += cluster.bytes.size();
    n_columns += cluster.n_columns;
  }
  return {n_bytes, n_columns};
}

}  // namespace

LiveRows::Place LiveRows::first_difference(const RowList& rows) const {
  Place at;
  const size_t n_common = std::min(rows.size(), shown_.size());
  while (at.row < n_common && *rows[at.row] == shown_[at.row]) ++at.row;
  if (at.row == n_common && at.row > 0) --at.row;
  const ScreenRow &wanted = *rows[at.row], &shown = shown_[at.row];
  const size_t n_runs = std::min(wanted.runs.size(), shown.runs.size());
  while (at.run < n_runs && wanted.runs[at.run] == shown.runs[at.run]) at.column += shown.runs[at.run++].n_columns;
  if (at.run < n_runs && wanted.runs[at.run].style == shown.runs[at.run].style) {
    const auto [n_same, n_same_columns] = same_clusters(wanted.runs[at.run].text, shown.runs[at.run].text);
    at.n_same = n_same;
    at.column += n_same_columns;
  }
  return at;
}

bool LiveRows::is_cursor_at(const Place& place) const {
  return place.row + 1 == shown_.size() && place.column == shown_.back().n_columns;
}

// Erases what stands behind the place. The column is not the last one: there, terminals differ.
void LiveRows::move_to(const Place& place, std::string& out) const {
  append_up(shown_.size() - 1 - place.row, out);
  if (place.column > 0) fmt::format_to(std::back_inserter(out), "\x1b[{}C", place.column);
  out += kEraseBelow;
}

void LiveRows::set_style(const TextStyle& style, TextStyle& current, std::string& out) const {
  if (!has_colour_ || style == current) return;
  out += style_sequence(style);
  current = style;
}

void LiveRows::write_rest(const RowList& rows, const Place& from, std::string& out) const {
  TextStyle current;
  for (size_t i = from.row; i < rows.size(); ++i) {
    const bool is_first = i == from.row;
    if (!is_first) out += kNextRow;
    for (size_t r = is_first ? from.run : 0; r < rows[i]->runs.size(); ++r) {
      const StyledRun& run = rows[i]->runs[r];
      const std::string_view text = std::string_view(run.text).substr(is_first && r == from.run ? from.n_same : 0);
      if (text.empty()) continue;
      set_style(run.style, current, out);
      out += text;
    }
    set_style({}, current, out);
  }
}

std::string LiveRows::update(std::span<const ScreenRow> final_rows, std::span<const ScreenRow> open_rows) {
  RowList rows;
  rows.reserve(final_rows.size() + open_rows.size());
  for (const ScreenRow& row : final_rows) rows.push_back(&row);
  for (const ScreenRow& row : open_rows) rows.push_back(&row);
  std::string out;
  if (rows.empty()) {
    if (shown_.empty()) return out;
    move_to({}, out);
    is_below_text_ = false;
  } else if (shown_.empty()) {
    if (is_below_text_) out += kNextRow;
    write_rest(rows, {}, out);
    is_below_text_ = true;
  } else {
    Place from = first_difference(rows);
    const size_t n_reach = to_size(n_rows_);
    if (shown_.size() > n_reach + from.row) from = {.row = std::min(shown_.size() - n_reach, rows.size() - 1)};
    if (!is_cursor_at(from)) {
      if (from.column >= n_columns_) from = {.row = from.row};
      move_to(from, out);
    }
    write_rest(rows, from, out);
    is_below_text_ = true;
  }
  shown_.assign(open_rows.begin(), open_rows.end());
  return out;
}

std::string LiveRows::finish() {
  const bool has_row = !shown_.empty() || is_below_text_;
  shown_.clear();
  is_below_text_ = false;
  return std::string(has_row ? kNextRow : "");
}

std::string LiveRows::resize(int64_t n_columns, int64_t n_rows) {
  n_columns_ = n_columns;
  n_rows_ = n_rows;
  if (shown_.empty()) return "";
  int64_t n_above = -1;
  for (const ScreenRow& row : shown_) n_above += std::max<int64_t>(1, div_ceil(row.n_columns, n_columns));
  std::string out;
  append_up(to_size(std::min(n_above, n_rows - 1)), out);
  out += kEraseBelow;
  shown_.clear();
  is_below_text_ = false;
  return out;
}

}  // namespace tessera::cli
