// The part of a Markdown link behind its text, and what stands between `<` and `>`. The parser of inline constructs
// calls it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::cli {

struct LinkTarget {
  size_t n_bytes = 0;  // of the source; 0: this is no target
  std::string address;
};

/// Reads `(address "title")` at the start of the text, of at most 4 KiB on one line. The title is dropped.
LinkTarget read_link_target(std::string_view text);

enum class AngleKind : uint8_t { none, open, address, tag };

struct AngleText {
  AngleKind kind = AngleKind::none;  // open: the text ends before '>'
  size_t n_bytes = 0;                // of the source, with the brackets
};

/// Reads `<https://...>`, `<a@b.c>` or an HTML tag or comment at the start of the text, of at most 4 KiB on one line.
AngleText read_angle_text(std::string_view text);

/// True for ASCII punctuation, which a backslash takes its meaning from.
bool is_markdown_punctuation(char c);

}  // namespace tessera::cli
