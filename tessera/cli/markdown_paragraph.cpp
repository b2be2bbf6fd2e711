#include "tessera/cli/markdown_paragraph.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

// A line break takes the rest of its row.
size_t MarkdownParagraph::n_cells(std::string_view text) const {
  return text.size() + to_size(std::ranges::count(text, '\n') * sizes_.n_columns);
}

// The checks come at numbers of cells, however the text was split.
void MarkdownParagraph::add(std::string_view text) {
  while (!text.empty()) {
    const size_t n_left = sizes_.n_check_cells - std::min(n_new_cells_, sizes_.n_check_cells - 1);
    const size_t n = text[0] == '\n' ? 1 : std::min({text.size(), n_left, text.find('\n')});
    open_ += text.substr(0, n);
    n_open_cells_ += n_cells(text.substr(0, n));
    n_new_cells_ += n_cells(text.substr(0, n));
    text.remove_prefix(n);
    if (n_new_cells_ >= sizes_.n_check_cells) check();
  }
}

void MarkdownParagraph::check() {
  const bool is_long = n_open_cells_ >= sizes_.n_open_cells;
  size_t n = stable_inline_bytes(open_, before_, false);
  if (n == 0 && is_long) n = stable_inline_bytes(open_, before_, true);
  if (n == 0 && is_long) n = open_.size() - text::n_incomplete_bytes(open_);
  if (n > 0) fix(n);
  n_new_cells_ = 0;
}

void MarkdownParagraph::fix(size_t n_bytes) {
  const std::string_view fixed = std::string_view(open_).substr(0, n_bytes);
  write(fixed, false);
  before_ = fixed.substr(fixed.size() - std::min<size_t>(4, fixed.size()));
  open_.erase(0, n_bytes);
  n_open_cells_ = n_cells(open_);
  is_whole_ = false;
}

void MarkdownParagraph::write(std::string_view text, bool is_partial) {
  InlineOptions options = inline_;
  options.is_partial = is_partial;
  for (const InlineRun& run : parse_inline(text, before_, options)) {
    std::string_view rest = run.text;
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      wrap_.add(rest.substr(0, end), run.style);
      wrap_.end_line();
      rest.remove_prefix(end + 1);
    }
    wrap_.add(rest, run.style);
  }
}

void MarkdownParagraph::end(bool is_partial) {
  write(open_, is_partial);
  open_.clear();
  wrap_.end_line();
}

void MarkdownParagraph::resize(const ViewSizes& sizes, const ScreenRow& first, const ScreenRow& rest) {
  sizes_ = sizes;
  n_open_cells_ = n_cells(open_);
  wrap_.resize(sizes.n_columns, first, rest);
}

}  // namespace tessera::cli
