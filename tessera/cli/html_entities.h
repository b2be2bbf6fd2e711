// Entities of HTML as they occur in Markdown. The parser of inline constructs calls it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::cli {

struct HtmlEntity {
  size_t n_bytes = 0;     // of the source; 0: the text begins with no entity
  std::string character;  // UTF-8
};

/// Reads the entity at the start of a text that begins with '&'. It knows numbers and the usual names. Line breaks and
/// numbers that are no character are not entities.
HtmlEntity read_html_entity(std::string_view text);

}  // namespace tessera::cli
