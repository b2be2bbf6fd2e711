// The inline constructs of Markdown: emphasis, code, links, escapes, entities, formulas. Paragraphs and the cells of
// tables turn their text into styled runs here. The time is linear in the text, and nothing recurses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/text_style.h"

namespace tessera::cli {

/// Text of one style. It is still untrusted: it may hold control characters. '\n' is a line break.
struct InlineRun {
  TextStyle style;
  std::string text;
};

struct InlineOptions {
  TextStyle base = {};
  bool has_colour = true;   // false: strikethrough keeps its marks, since nothing else shows it
  bool is_partial = false;  // more text follows: emphasis that is open is shown as if it ended behind the text
};

/// Parses the text. `before` is the text in front of it, of which the last character counts.
std::vector<InlineRun> parse_inline(std::string_view text, std::string_view before, const InlineOptions& options);

/// Returns n such that text[0, n) and text[n, end) parsed apart give the same runs as the whole, whatever text follows:
/// no construct crosses n, and none that begins before n is still open. text[n] is a blank or a line break, or n is 0.
/// An opening mark that has no end in the text counts as open, unless `gives_up_open`.
size_t stable_inline_bytes(std::string_view text, std::string_view before, bool gives_up_open);

}  // namespace tessera::cli
