#include "tessera/cli/markdown_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/cli/cluster.h"
#include "tessera/cli/word_wrap.h"

namespace tessera::cli {

namespace {

constexpr int64_t kLeastCellColumns = 5;
constexpr int64_t kSpareColumns = 6;  // for rows that come after the widths were fixed
constexpr TextStyle kLineStyle = {.dim = true};

std::string_view trim_blanks(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::string repeated(std::string_view text, int64_t n) {
  std::string out;
  for (int64_t i = 0; i < n; ++i) out += text;
  return out;
}

// `<br>` is the only line break that a cell can have.
std::string with_line_breaks(std::string text) {
  for (const std::string_view mark : {"<br>", "<br/>", "<br />"}) {
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
      text.replace(at, mark.size(), "\n");
    }
  }
  return text;
}

// Lays a cell out in rows of a width.
std::vector<ScreenRow> wrap_cell(const std::vector<InlineRun>& runs, int64_t n_columns) {
  WordWrap wrap(n_columns, WrapMode::words);
  for (const InlineRun& run : runs) {
    std::string_view rest = run.text;
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      wrap.add(rest.substr(0, end), run.style);
      wrap.end_line();
      rest.remove_prefix(end + 1);
    }
    wrap.add(rest, run.style);
  }
  wrap.end_line();
  return wrap.take_rows();
}

}  // namespace

std::vector<std::string> split_cells(std::string_view line) {
  line = trim_blanks(line);
  if (line.starts_with('|')) line.remove_prefix(1);
  std::vector<std::string> cells(1);
  for (size_t i = 0; i < line.size(); ++i) {
    const bool is_escaped_bar = line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|';
    if (is_escaped_bar) {
      cells.back() += line[++i];
    } else if (line[i] != '|') {
      cells.back() += line[i];
    } else if (i + 1 < line.size()) {
      if (cells.size() > kMostTableColumns) break;
      cells.emplace_back();
    }
  }
  for (std::string& cell : cells) cell = trim_blanks(cell);
  return cells;
}

std::optional<std::vector<CellAlign>> read_delimiter_row(std::string_view line) {
  if (line.find_first_not_of("|:- \t") != std::string_view::npos) return std::nullopt;
  if (line.find('-') == std::string_view::npos) return std::nullopt;
  if (line.find_first_of("|:") == std::string_view::npos) return std::nullopt;
  std::vector<CellAlign> aligns;
  for (const std::string_view cell : split_cells(line)) {
    const bool is_left = cell.starts_with(':');
    const bool is_right = cell.size() > 1 && cell.ends_with(':');
    const std::string_view dashes = cell.substr(is_left ? 1 : 0, cell.size() - (is_left ? 1 : 0) - (is_right ? 1 : 0));
    if (dashes.empty() || dashes.find_first_not_of('-') != std::string_view::npos) return std::nullopt;
    aligns.push_back(!is_right ? CellAlign::left : is_left ? CellAlign::centre : CellAlign::right);
  }
  if (aligns.size() > kMostTableColumns) return std::nullopt;
  return aligns;
}

MarkdownTable::MarkdownTable(std::vector<std::string> header, std::vector<CellAlign> aligns,
                             const InlineOptions& inline_options, const ViewSizes& sizes)
    : sizes_(sizes), inline_(inline_options), aligns_(std::move(aligns)) {
  header_ = parse_row(header, true);
}

void MarkdownTable::set_prefixes(const ScreenRow& first, const ScreenRow& rest) {
  first_ = first;
  rest_ = rest;
}

std::vector<MarkdownTable::Cell> MarkdownTable::parse_row(const std::vector<std::string>& sources,
                                                          bool is_header) const {
  std::vector<Cell> cells(aligns_.size());
  InlineOptions options = inline_;
  options.base.bold |= is_header;
  for (size_t i = 0; i < std::min(cells.size(), sources.size()); ++i) {
    cells[i].runs = parse_inline(with_line_breaks(sources[i]), "", options);
    int64_t n_line = 0;
    for (const InlineRun& run : cells[i].runs) {
      std::string_view rest = run.text;
      for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
        cells[i].n_columns = std::max(cells[i].n_columns, n_line + n_columns(rest.substr(0, end)));
        n_line = 0;
        rest.remove_prefix(end + 1);
      }
      n_line += n_columns(rest);
    }
    cells[i].n_columns = std::max(cells[i].n_columns, n_line);
  }
  return cells;
}

void MarkdownTable::add_row(std::string_view line) {
  std::vector<Cell> row = parse_row(split_cells(line), false);
  if (is_fixed_) return write_row(row);
  held_.push_back(std::move(row));
  n_held_bytes_ += line.size();
  MarkdownTable trial = *this;
  trial.write_held(true);
  const bool is_full = trial.rows_.size() >= sizes_.n_table_rows || n_held_bytes_ > kMostTableBytes;
  if (is_full) *this = std::move(trial);
}

// Natural widths if they fit, and wider ones for rows that follow. Else the widest columns share the room that the
// others leave.
void MarkdownTable::choose_widths(bool more_follow) {
  widths_.assign(aligns_.size(), 1);
  for (size_t c = 0; c < widths_.size(); ++c) {
    widths_[c] = std::max(widths_[c], header_[c].n_columns);
    for (const auto& row : held_) widths_[c] = std::max(widths_[c], row[c].n_columns);
  }
  const auto n_cells = static_cast<int64_t>(widths_.size());
  const int64_t room = sizes_.n_columns - rest_.n_columns - 3 * n_cells - 1;
  layout_ = Layout::lines;
  const int64_t n_spare = room - std::accumulate(widths_.begin(), widths_.end(), int64_t{0});
  if (n_spare >= 0) {
    for (int64_t& width : widths_)
      width += more_follow ? std::min(n_spare / n_cells, std::max(width / 2, kSpareColumns)) : 0;
    return;
  }
  std::vector<int64_t> sorted = widths_;
  std::ranges::sort(sorted);
  int64_t left = room, n_left = n_cells;
  while (n_left > 0 && sorted[to_size(n_cells - n_left)] * n_left <= left) left -= sorted[to_size(n_cells - n_left--)];
  const int64_t most = left > 0 && n_left > 0 ? left / n_left : 0;
  layout_ = most < kLeastCellColumns ? Layout::fields : Layout::wrapped;
  int64_t extra = left - most * n_left;
  for (int64_t& width : widths_) {
    if (width <= most) continue;
    width = most + (extra > 0 ? 1 : 0);
    extra -= extra > 0 ? 1 : 0;
  }
}

ScreenRow MarkdownTable::take_prefix() { return std::exchange(is_first_, false) ? first_ : rest_; }

// Fixes the widths and writes all rows so far.
void MarkdownTable::write_held(bool more_follow) {
  choose_widths(more_follow);
  is_fixed_ = true;
  if (layout_ != Layout::fields) {
    write_rule(Rule::top);
    write_row(header_);
    write_rule(Rule::middle);
    n_written_ = 0;
  }
  for (const auto& row : std::exchange(held_, {})) write_row(row);
}

void MarkdownTable::write_rule(Rule rule) {
  static constexpr std::string_view kCorners[3][3] = {{"┌", "┬", "┐"}, {"├", "┼", "┤"}, {"└", "┴", "┘"}};
  const auto& corners = kCorners[to_size(rule)];
  ScreenRow row = take_prefix();
  for (size_t c = 0; c < widths_.size(); ++c) {
    row.append(corners[c == 0 ? 0 : 1], 1, kLineStyle);
    row.append(repeated("─", widths_[c] + 2), widths_[c] + 2, kLineStyle);
  }
  row.append(corners[2], 1, kLineStyle);
  rows_.push_back(std::move(row));
}

void MarkdownTable::write_row(const std::vector<Cell>& row) {
  if (layout_ == Layout::fields) return write_fields(row);
  if (layout_ == Layout::wrapped && n_written_ > 0) write_rule(Rule::middle);
  ++n_written_;
  std::vector<std::vector<ScreenRow>> cells;
  size_t height = 1;
  for (size_t c = 0; c < row.size(); ++c) {
    cells.push_back(wrap_cell(row[c].runs, widths_[c]));
    height = std::max(height, cells.back().size());
  }
  for (size_t i = 0; i < height; ++i) write_cell_row(cells, i);
}

void MarkdownTable::write_cell_row(const std::vector<std::vector<ScreenRow>>& cells, size_t i) {
  ScreenRow out = take_prefix();
  for (size_t c = 0; c < cells.size(); ++c) {
    const ScreenRow text = i < cells[c].size() ? cells[c][i] : ScreenRow();
    const int64_t n_free = std::max<int64_t>(0, widths_[c] - text.n_columns);
    const int64_t n_before = aligns_[c] == CellAlign::left ? 0 : aligns_[c] == CellAlign::right ? n_free : n_free / 2;
    out.append("│", 1, kLineStyle);
    out.append(repeated(" ", n_before + 1), n_before + 1, {});
    out.append(text);
    out.append(repeated(" ", n_free - n_before + 1), n_free - n_before + 1, {});
  }
  out.append("│", 1, kLineStyle);
  rows_.push_back(std::move(out));
}

// A line "header: value" for each cell that is not empty.
void MarkdownTable::write_fields(const std::vector<Cell>& row) {
  if (n_written_++ > 0) rows_.push_back(take_prefix());
  for (size_t c = 0; c < row.size(); ++c) {
    if (row[c].runs.empty()) continue;
    std::vector<InlineRun> runs = header_[c].runs;
    if (!runs.empty()) runs.push_back({inline_.base, ": "});
    runs.insert(runs.end(), row[c].runs.begin(), row[c].runs.end());
    for (const ScreenRow& text : wrap_cell(runs, sizes_.n_columns - rest_.n_columns)) {
      ScreenRow out = take_prefix();
      out.append(text);
      rows_.push_back(std::move(out));
    }
  }
}

void MarkdownTable::end(bool is_partial) {
  if (!is_fixed_) write_held(false);
  if (!is_partial && layout_ != Layout::fields) write_rule(Rule::bottom);
}

std::vector<ScreenRow> MarkdownTable::take_rows() { return std::exchange(rows_, {}); }

// Rows that were written stay as they are. Later rows get a layout of their own.
void MarkdownTable::resize(const ViewSizes& sizes, const ScreenRow& first, const ScreenRow& rest) {
  sizes_ = sizes;
  set_prefixes(first, rest);
  if (is_fixed_) choose_widths(true);
}

}  // namespace tessera::cli
