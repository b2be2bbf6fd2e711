// Text without Markdown while it arrives: lines wrapped at the width. The view of replies shows reasoning so, and
// replies if Markdown is off.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/cli/view_options.h"
#include "tessera/cli/word_wrap.h"

namespace tessera::cli {

class PlainText {
 public:
  PlainText(const TextStyle& style, const ViewSizes& sizes)
      : style_(style), sizes_(sizes), wrap_(sizes.n_columns, WrapMode::words) {}

  /// Appends text that ends with a whole character. Empty lines at the start and the end of the text are dropped.
  void feed(std::string_view text);
  void end();
  std::vector<ScreenRow> take_rows() { return wrap_.take_rows(); }
  std::vector<ScreenRow> open_rows() const;
  void resize(const ViewSizes& sizes);

 private:
  void add(std::string_view text);
  void add_character(char c);

  TextStyle style_;
  ViewSizes sizes_;
  WordWrap wrap_;
  size_t n_line_ends_ = 0;  // not written yet
  bool has_text_ = false;
  bool has_return_ = false;  // a carriage return was the last character
};

}  // namespace tessera::cli
