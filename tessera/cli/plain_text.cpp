#include "tessera/cli/plain_text.h"

#include <algorithm>
#include <utility>

namespace tessera::cli {

void PlainText::feed(std::string_view text) {
  while (!text.empty()) {
    const size_t n = std::min(text.find_first_of("\n\r\t"), text.size());
    if (n > 0) {
      if (std::exchange(has_return_, false)) add("\r");
      add(text.substr(0, n));
    }
    if (n < text.size()) add_character(text[n]);
    text.remove_prefix(std::min(n + 1, text.size()));
  }
}

void PlainText::add_character(char c) {
  const bool had_return = std::exchange(has_return_, c == '\r');
  if (c == '\n') {
    n_line_ends_ += has_text_ ? 1 : 0;
    return;
  }
  if (had_return) add("\r");
  if (c == '\t') add("    ");
}

void PlainText::add(std::string_view text) {
  for (; n_line_ends_ > 0; --n_line_ends_) wrap_.end_line();
  wrap_.add(text, style_);
  has_text_ = true;
}

void PlainText::end() {
  if (std::exchange(has_return_, false)) add("\r");
  if (has_text_) wrap_.end_line();
  has_text_ = false;
  n_line_ends_ = 0;
}

std::vector<ScreenRow> PlainText::open_rows() const {
  PlainText copy = *this;
  copy.take_rows();
  copy.end();
  return copy.take_rows();
}

void PlainText::resize(const ViewSizes& sizes) {
  sizes_ = sizes;
  wrap_.resize(sizes.n_columns, {}, {});
}

}  // namespace tessera::cli
