// A paragraph or heading of Markdown while its text arrives. It parses again only the part of its text whose meaning
// may still change. The parser of blocks calls it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/markdown_inline.h"
#include "tessera/cli/view_options.h"
#include "tessera/cli/word_wrap.h"

namespace tessera::cli {

class MarkdownParagraph {
 public:
  MarkdownParagraph() : sizes_(ViewOptions{}) {}
  MarkdownParagraph(WordWrap wrap, const InlineOptions& inline_options, const ViewSizes& sizes)
      : wrap_(std::move(wrap)), inline_(inline_options), sizes_(sizes) {}

  /// Appends text. '\n' ends a line.
  void add(std::string_view text);
  /// Ends the paragraph. is_partial: only to show it, for more text follows.
  void end(bool is_partial);
  std::vector<ScreenRow> take_rows() { return wrap_.take_rows(); }
  /// The whole text, unless the meaning of a part has been fixed.
  bool is_whole() const { return is_whole_; }
  std::string_view source() const { return open_; }
  void resize(const ViewSizes& sizes, const ScreenRow& first, const ScreenRow& rest);

 private:
  size_t n_cells(std::string_view text) const;
  void fix(size_t n_bytes);
  void check();
  void write(std::string_view text, bool is_partial);

  WordWrap wrap_;  // holds the text that is fixed
  InlineOptions inline_;
  ViewSizes sizes_;
  std::string open_;    // the text that is not
  std::string before_;  // the character before it
  size_t n_open_cells_ = 0;
  size_t n_new_cells_ = 0;  // since the last check
  bool is_whole_ = true;
};

}  // namespace tessera::cli
