// Tables of Markdown while their rows arrive: aligned columns with lines between them, wrapped cells where the window
// is too narrow, and lists of fields where it is much too narrow. The parser of blocks calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/markdown_inline.h"
#include "tessera/cli/view_options.h"

namespace tessera::cli {

enum class CellAlign : uint8_t { left, right, centre };

inline constexpr size_t kMostTableColumns = 64;
inline constexpr size_t kMostTableBytes = size_t{64} << 10;

/// Reads the second line of a table (`|:--|--:|`). Nothing if it is another line, or has more than 64 columns.
std::optional<std::vector<CellAlign>> read_delimiter_row(std::string_view line);
/// Splits a line into its cells, at most 65 of them.
std::vector<std::string> split_cells(std::string_view line);

class MarkdownTable {
 public:
  MarkdownTable() : sizes_(ViewOptions{}) {}
  /// first and rest stand before the first row and before the others.
  MarkdownTable(std::vector<std::string> header, std::vector<CellAlign> aligns, const InlineOptions& inline_options,
                const ViewSizes& sizes);

  void set_prefixes(const ScreenRow& first, const ScreenRow& rest);
  /// Appends a row. The width of the columns is fixed once the table fills the window.
  void add_row(std::string_view line);
  /// Ends the table. is_partial: only to show it, for more rows follow.
  void end(bool is_partial);
  std::vector<ScreenRow> take_rows();
  void resize(const ViewSizes& sizes, const ScreenRow& first, const ScreenRow& rest);

 private:
  struct Cell {
    std::vector<InlineRun> runs;
    int64_t n_columns = 0;  // of its longest line
  };
  enum class Layout : uint8_t { lines, wrapped, fields };
  enum class Rule : uint8_t { top, middle, bottom };

  std::vector<Cell> parse_row(const std::vector<std::string>& sources, bool is_header) const;
  void choose_widths(bool more_follow);
  void write_held(bool more_follow);
  void write_row(const std::vector<Cell>& row);
  void write_fields(const std::vector<Cell>& row);
  void write_rule(Rule rule);
  void write_cell_row(const std::vector<std::vector<ScreenRow>>& cells, size_t i);
  ScreenRow take_prefix();

  ViewSizes sizes_;
  InlineOptions inline_;
  std::vector<CellAlign> aligns_;
  ScreenRow first_, rest_;
  bool is_first_ = true;
  std::vector<Cell> header_;
  std::vector<std::vector<Cell>> held_;  // rows while the widths may change
  size_t n_held_bytes_ = 0;
  bool is_fixed_ = false;
  Layout layout_ = Layout::lines;
  std::vector<int64_t> widths_;
  size_t n_written_ = 0;
  std::vector<ScreenRow> rows_;
};

}  // namespace tessera::cli
