// A terminal in memory for tests: it reads the bytes that a program writes and holds the screen that a user would see.
// It follows xterm: cursor moves, erasing, SGR, deferred wrap, wide characters, scrolling, and reflow on a resize.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/cli/cluster.h"
#include "tessera/text/utf8.h"

namespace tessera::testing {

/// The look of a cell. colour: the SGR parameters of the last colour, such as "31" or "38;5;4"; empty: default.
struct ScreenStyle {
  bool bold = false, dim = false, italic = false, underline = false, reverse = false, strike = false;
  std::string colour;
  bool operator==(const ScreenStyle&) const = default;
};

struct ScreenCell {
  std::string text;   // a cluster; empty: nothing was written here
  int n_columns = 1;  // 0: the right half of a wide character
  ScreenStyle style;
};

class Screen {
 public:
  /// returns_at_line_feed: "\n" also returns to the first column, as a terminal shows it that adds the "\r".
  explicit Screen(int n_rows = 24, int n_columns = 80, bool returns_at_line_feed = false)
      : n_rows_(n_rows), n_columns_(n_columns), returns_(returns_at_line_feed), rows_(to_size(n_rows)) {
    for (Row& row : rows_) row.cells.resize(to_size(n_columns));
  }

  void feed(std::string_view bytes) {
    pending_ += bytes;
    size_t used = 0;
    while (used < pending_.size()) {
      const size_t n = step(std::string_view(pending_).substr(used));
      if (n == 0) break;
      used += n;
    }
    pending_.erase(0, used);
  }

  int n_rows() const { return n_rows_; }
  int n_columns() const { return n_columns_; }
  int cursor_row() const { return row_; }
  int cursor_column() const { return column_; }
  bool is_cursor_shown() const { return is_cursor_shown_; }
  bool pastes_are_bracketed() const { return pastes_are_bracketed_; }
  int n_bells() const { return n_bells_; }

  /// A row of the screen without blanks at its end.
  std::string row(int index) const { return text_of(rows_[to_size(index)]); }
  const ScreenCell& cell(int row, int column) const { return rows_[to_size(row)].cells[to_size(column)]; }

  /// The rows down to the last that is not empty, joined with "\n".
  std::string text() const { return join(rows_); }
  /// The rows that have left the screen at its top, and the screen.
  std::string text_with_history() const {
    std::vector<Row> all = history_;
    all.insert(all.end(), rows_.begin(), rows_.end());
    return join(all);
  }

  /// The style of the first place where `part` stands within a row. The test fails by a wrong style if there is none.
  ScreenStyle style_of(std::string_view part) const {
    for (const Row& row : rows_) {
      const size_t at = text_of(row).find(part);
      if (at == std::string::npos) continue;
      size_t n = 0;
      for (const ScreenCell& cell : row.cells) {
        if (n == at) return cell.style;
        n += cell.n_columns == 0 ? 0 : std::max<size_t>(cell.text.size(), 1);
      }
    }
    return {.colour = "not found"};
  }

  /// Control sequences that this terminal does not know. Programs should send none.
  const std::vector<std::string>& unknown() const { return unknown_; }

  /// Changes the size. With reflow, rows that were broken by the right edge are joined and broken anew.
  void resize(int n_rows, int n_columns, bool reflows = true) {
    if (reflows && n_columns != n_columns_) {
      reflow(n_columns);
    } else {
      for (Row& row : rows_) row.cells.resize(to_size(n_columns));
    }
    n_columns_ = n_columns;
    while (static_cast<int>(rows_.size()) > n_rows) {
      const bool drops_last = row_ < static_cast<int>(rows_.size()) - 1 && text_of(rows_.back()).empty();
      if (drops_last) {
        rows_.pop_back();
      } else {
        scroll_out();
      }
    }
    while (static_cast<int>(rows_.size()) < n_rows) rows_.push_back(blank_row());
    n_rows_ = n_rows;
    row_ = std::clamp(row_, 0, n_rows - 1);
    column_ = std::clamp(column_, 0, n_columns - 1);
    is_wrap_pending_ = false;
  }

 private:
  struct Row {
    std::vector<ScreenCell> cells;
    bool goes_on = false;  // broken by the right edge
  };

  static constexpr char kEsc = '\x1b';

  static std::string text_of(const Row& row) {
    std::string text;
    for (const ScreenCell& cell : row.cells)
      if (cell.n_columns > 0) text += cell.text.empty() ? " " : cell.text;
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }
  static std::string join(const std::vector<Row>& rows) {
    std::string text;
    for (const Row& row : rows) text += text_of(row) + "\n";
    text.erase(text.find_last_not_of('\n') + 1);
    return text;
  }

  Row blank_row() const { return {std::vector<ScreenCell>(to_size(n_columns_)), false}; }
  Row& here() { return rows_[to_size(row_)]; }

  void scroll_out() {
    history_.push_back(std::move(rows_.front()));
    rows_.erase(rows_.begin());
    --row_;
  }

  void line_feed() {
    is_wrap_pending_ = false;
    if (row_ + 1 < n_rows_) {
      ++row_;
      return;
    }
    scroll_out();
    rows_.push_back(blank_row());
    row_ = n_rows_ - 1;
  }

  // Consumes one character or sequence and returns its bytes; 0: it is not complete.
  size_t step(std::string_view bytes) {
    if (bytes[0] == kEsc) return escape(bytes);
    const auto first = static_cast<uint8_t>(bytes[0]);
    if (first < 0x20 || first == 0x7F) {
      control(bytes[0]);
      return 1;
    }
    const auto utf8 = text::next_utf8(bytes);
    if (utf8.state == text::Utf8State::incomplete) return 0;
    const bool is_c1 = first == 0xC2 && utf8.n_bytes == 2 && static_cast<uint8_t>(bytes[1]) < 0xA0;
    if (utf8.state == text::Utf8State::invalid || is_c1) {
      unknown_.emplace_back(bytes.substr(0, utf8.n_bytes));
    } else {
      put(bytes.substr(0, utf8.n_bytes));
    }
    return utf8.n_bytes;
  }

  void control(char c) {
    switch (c) {
      case '\r':
        column_ = 0;
        is_wrap_pending_ = false;
        return;
      case '\n':
        line_feed();
        if (returns_) column_ = 0;
        return;
      case '\b':
        column_ = std::max(0, column_ - 1);
        is_wrap_pending_ = false;
        return;
      case '\t':
        column_ = std::min(n_columns_ - 1, (column_ / 8 + 1) * 8);
        return;
      case '\a':
        ++n_bells_;
        return;
      default:
        unknown_.emplace_back(1, c);
    }
  }

  void put(std::string_view character) {
    if (joins_last(character)) return;
    const int n = static_cast<int>(cli::n_columns(character));
    if (n == 0) return;  // a mark without a letter
    if (is_wrap_pending_ || column_ + n > n_columns_) {
      here().goes_on = true;
      line_feed();
      column_ = 0;
    }
    clear_wide(column_);
    if (n == 2) clear_wide(column_ + 1);
    here().cells[to_size(column_)] = {std::string(character), n, style_};
    if (n == 2) here().cells[to_size(column_ + 1)] = {"", 0, style_};
    last_row_ = row_, last_column_ = column_;
    column_ += n;
    is_wrap_pending_ = column_ >= n_columns_;
    column_ = std::min(column_, n_columns_ - 1);
    has_last_ = true;
  }

  // Adds a mark or the next part of an emoji to the character before it.
  bool joins_last(std::string_view character) {
    if (!has_last_ || last_row_ >= n_rows_) return false;
    ScreenCell& cell = rows_[to_size(last_row_)].cells[to_size(last_column_)];
    const bool is_behind = row_ == last_row_ && (is_wrap_pending_ || column_ == last_column_ + cell.n_columns);
    if (!is_behind || cell.text.empty()) return false;
    const std::string joined = cell.text + std::string(character);
    const cli::Cluster cluster = cli::first_cluster(joined);
    if (cluster.bytes.size() != joined.size()) return false;
    const int n_more = cluster.n_columns - cell.n_columns;
    cell.text = joined;
    if (n_more == 1 && last_column_ + 1 < n_columns_) {
      clear_wide(last_column_ + 1);
      cell.n_columns = 2;
      rows_[to_size(last_row_)].cells[to_size(last_column_ + 1)] = {"", 0, cell.style};
      column_ = last_column_ + 2;
      is_wrap_pending_ = column_ >= n_columns_;
      column_ = std::min(column_, n_columns_ - 1);
    }
    return true;
  }

  // Overwriting one half of a wide character erases the other half.
  void clear_wide(int column) {
    if (column >= n_columns_) return;
    std::vector<ScreenCell>& cells = here().cells;
    const size_t at = to_size(column);
    if (cells[at].n_columns == 0 && at > 0) cells[at - 1] = {};
    if (cells[at].n_columns == 2 && at + 1 < cells.size()) cells[at + 1] = {};
    cells[at] = {};
  }

  size_t escape(std::string_view bytes) {
    if (bytes.size() < 2) return 0;
    has_last_ = false;
    if (bytes[1] == '[') return control_sequence(bytes);
    if (bytes[1] == ']') {
      const size_t bell = bytes.find('\a'), st = bytes.find("\x1b\\");
      if (bell == std::string_view::npos && st == std::string_view::npos) return 0;
      return bell < st ? bell + 1 : st + 2;
    }
    switch (bytes[1]) {
      case '7':
        saved_row_ = row_, saved_column_ = column_;
        break;
      case '8':
        move_to(saved_row_, saved_column_);
        break;
      default:
        unknown_.emplace_back(bytes.substr(0, 2));
    }
    return 2;
  }

  size_t control_sequence(std::string_view bytes) {
    size_t end = 2;
    while (end < bytes.size() && (bytes[end] < 0x40 || bytes[end] > 0x7E)) ++end;
    if (end == bytes.size()) return 0;
    const std::string_view sequence = bytes.substr(0, end + 1);
    if (!run(bytes[end], bytes.substr(2, end - 2))) unknown_.emplace_back(sequence);
    return sequence.size();
  }

  static std::vector<int> numbers(std::string_view parameters) {
    std::vector<int> all(1, 0);
    for (const char c : parameters) {
      if (c >= '0' && c <= '9') all.back() = all.back() * 10 + (c - '0');
      if (c == ';' || c == ':') all.push_back(0);
    }
    return all;
  }

  void move_to(int row, int column) {
    row_ = std::clamp(row, 0, n_rows_ - 1);
    column_ = std::clamp(column, 0, n_columns_ - 1);
    is_wrap_pending_ = false;
  }

  bool run(char final, std::string_view parameters) {
    if (parameters.starts_with("?")) return set_mode(final, numbers(parameters));
    if (final == 'm') return set_style(numbers(parameters));
    const std::vector<int> n = numbers(parameters);
    const int first = std::max(1, n[0]), second = std::max(1, n.size() > 1 ? n[1] : 1);
    switch (final) {
      case 'A':
        move_to(row_ - first, column_);
        return true;
      case 'B':
        move_to(row_ + first, column_);
        return true;
      case 'C':
        move_to(row_, column_ + first);
        return true;
      case 'D':
        move_to(row_, column_ - first);
        return true;
      case 'E':
        move_to(row_ + first, 0);
        return true;
      case 'F':
        move_to(row_ - first, 0);
        return true;
      case 'G':
        move_to(row_, first - 1);
        return true;
      case 'H':
        move_to(first - 1, second - 1);
        return true;
      case 'J':
        return erase_screen(n[0]);
      case 'K':
        return erase_row(n[0]);
      default:
        return false;
    }
  }

  bool set_mode(char final, const std::vector<int>& modes) {
    if (final != 'h' && final != 'l') return false;
    for (const int mode : modes) {
      if (mode == 25) {
        is_cursor_shown_ = final == 'h';
      } else if (mode == 2004) {
        pastes_are_bracketed_ = final == 'h';
      } else if (mode != 2026) {  // 2026: synchronized output
        return false;
      }
    }
    return true;
  }

  void erase_cells(int from, int to) {
    for (int column = from; column < to; ++column) clear_wide(column);
    if (to == n_columns_) here().goes_on = false;
    is_wrap_pending_ = false;
  }
  bool erase_row(int part) {
    if (part > 2) return false;
    erase_cells(part == 0 ? column_ : 0, part == 1 ? column_ + 1 : n_columns_);
    return true;
  }
  bool erase_screen(int part) {
    if (part == 3) history_.clear();
    if (part > 2) return part == 3;
    if (part == 2 && !history_.empty()) history_.back().goes_on = false;
    erase_row(part);
    for (int row = 0; row < n_rows_; ++row)
      if (part == 2 || (part == 0 && row > row_) || (part == 1 && row < row_)) rows_[to_size(row)] = blank_row();
    return true;
  }

  bool set_style(const std::vector<int>& codes) {
    for (size_t i = 0; i < codes.size(); ++i) {
      const int code = codes[i];
      const bool is_long = code == 38 || code == 48;
      if (code == 0) style_ = {};
      if (code == 1) style_.bold = true;
      if (code == 2) style_.dim = true;
      if (code == 3) style_.italic = true;
      if (code == 4) style_.underline = true;
      if (code == 7) style_.reverse = true;
      if (code == 9) style_.strike = true;
      if (code == 22) style_.bold = style_.dim = false;
      if (code == 23) style_.italic = false;
      if (code == 24) style_.underline = false;
      if (code == 27) style_.reverse = false;
      if (code == 29) style_.strike = false;
      if (code == 39) style_.colour.clear();
      if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style_.colour = std::to_string(code);
      if (!is_long) continue;
      const size_t n = i + 1 < codes.size() && codes[i + 1] == 5 ? 3 : 5;
      std::string colour;
      for (size_t k = i; k < std::min(i + n, codes.size()); ++k)
        colour += (k == i ? "" : ";") + std::to_string(codes[k]);
      if (code == 38) style_.colour = colour;
      i += n - 1;
    }
    return true;
  }

  // A line is a run of rows that goes on over the right edge. The cursor keeps its place in its line. Lines that have
  // left the screen do not come back.
  void reflow(int n_columns) {
    std::vector<Row> old = std::move(history_);
    const size_t n_history = old.size(), cursor = n_history + to_size(row_);
    old.insert(old.end(), std::make_move_iterator(rows_.begin()), std::make_move_iterator(rows_.end()));
    while (old.size() > cursor + 1 && text_of(old.back()).empty()) old.pop_back();
    std::vector<Row> made;
    size_t cursor_row = 0, top = 0;
    for (size_t i = 0; i < old.size();) {
      if (i <= n_history) top = made.size();
      std::vector<ScreenCell> line;
      size_t cursor_at = SIZE_MAX;
      bool goes_on = true;
      for (; i < old.size() && goes_on; ++i) {
        if (i == cursor) cursor_at = line.size() + to_size(column_);
        goes_on = old[i].goes_on;
        size_t n_used = old[i].cells.size();
        while (n_used > 0 && old[i].cells[n_used - 1].text.empty() && old[i].cells[n_used - 1].n_columns == 1) --n_used;
        if (i == cursor) n_used = std::max(n_used, std::min(to_size(column_), old[i].cells.size()));
        line.insert(line.end(), old[i].cells.begin(), old[i].cells.begin() + static_cast<std::ptrdiff_t>(n_used));
      }
      const size_t first_row = made.size();
      break_line(line, n_columns, cursor_at, made, cursor_row);
      if (cursor_at == SIZE_MAX) continue;
      cursor_row = std::max(cursor_row, first_row);
    }
    n_columns_ = n_columns;
    row_ = static_cast<int>(cursor_row);
    rows_ = std::move(made);
    history_.clear();
    for (size_t i = 0; i < top; ++i) scroll_out();
    while (static_cast<int>(rows_.size()) > n_rows_ && row_ > 0) scroll_out();  // rows above the cursor leave first
    if (static_cast<int>(rows_.size()) > n_rows_) rows_.resize(to_size(n_rows_));
  }

  void break_line(const std::vector<ScreenCell>& line, int n_columns, size_t cursor_at, std::vector<Row>& made,
                  size_t& cursor_row) {
    const auto add_row = [&] { made.push_back({std::vector<ScreenCell>(), false}); };
    add_row();
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i].n_columns == 0) continue;
      if (static_cast<int>(made.back().cells.size()) + line[i].n_columns > n_columns) {
        made.back().goes_on = true;
        made.back().cells.resize(to_size(n_columns));
        add_row();
      }
      if (i == cursor_at) cursor_row = made.size() - 1, column_ = static_cast<int>(made.back().cells.size());
      made.back().cells.push_back(line[i]);
      if (line[i].n_columns == 2) made.back().cells.push_back({"", 0, line[i].style});
    }
    if (cursor_at != SIZE_MAX && cursor_at >= line.size()) {
      cursor_row = made.size() - 1;
      column_ = static_cast<int>(made.back().cells.size());
    }
    made.back().cells.resize(to_size(n_columns));
  }

  int n_rows_, n_columns_;
  bool returns_;
  std::vector<Row> rows_, history_;
  int row_ = 0, column_ = 0, saved_row_ = 0, saved_column_ = 0;
  int last_row_ = 0, last_column_ = 0;
  bool has_last_ = false;
  bool is_wrap_pending_ = false;
  bool is_cursor_shown_ = true;
  bool pastes_are_bracketed_ = false;
  int n_bells_ = 0;
  ScreenStyle style_;
  std::string pending_;
  std::vector<std::string> unknown_;
};

}  // namespace tessera::testing
