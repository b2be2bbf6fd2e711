// Lays styled text out in rows of a width. Text comes in pieces of any size, and the rows do not depend on how it was
// split. The blocks of Markdown, the cells of tables and plain text use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/text_style.h"

namespace tessera::cli {

enum class WrapMode : uint8_t {
  words,  // a row ends between words; a word longer than a row is cut
  exact,  // a row ends at the width
};

class WordWrap {
 public:
  WordWrap() = default;
  /// first and rest stand before the first row and before the others. Each is narrower than n_columns.
  WordWrap(int64_t n_columns, WrapMode mode, ScreenRow first = {}, ScreenRow rest = {});

  /// Appends text without line breaks. Control characters are escaped.
  void add(std::string_view text, const TextStyle& style);
  /// Ends the row, also an empty one.
  void end_line();
  /// Returns the complete rows and forgets them.
  std::vector<ScreenRow> take_rows();
  /// True if the line has no text yet.
  bool is_line_start() const { return is_line_start_; }
  /// Changes the width and the prefixes. The row that is being filled is laid out anew.
  void resize(int64_t n_columns, const ScreenRow& first, const ScreenRow& rest);

 private:
  void add_clusters(std::string_view text, bool is_end);
  void flush_cluster();
  void add_cluster(std::string_view bytes, int n_cluster_columns);
  void place(std::string_view bytes, int n_cluster_columns);
  void place_in_word(std::string_view bytes, int n_cluster_columns);
  bool is_break_before(std::string_view bytes, int n_cluster_columns) const;
  void flush_word();
  void break_row();
  bool is_full(int n_cluster_columns) const;
  int64_t n_row_columns() const { return prefix_.n_columns + row_.n_columns; }

  int64_t n_columns_ = 80;
  WrapMode mode_ = WrapMode::words;
  ScreenRow rest_;  // the prefix of later rows
  std::vector<ScreenRow> rows_;
  ScreenRow prefix_;  // of the row
  ScreenRow row_;     // the row that is being filled
  size_t n_row_bytes_ = 0;
  bool is_line_start_ = true;
  bool is_first_row_ = true;

  TextStyle style_;      // of the cluster, and of what is being placed
  std::string cluster_;  // the last one, which may grow by marks
  int64_t n_spaces_ = 0;
  TextStyle space_style_;
  ScreenRow word_;  // behind the spaces
  std::string last_cluster_;
  int n_last_columns_ = 0;  // of the last cluster of the word; 0: the word is empty
};

}  // namespace tessera::cli
