// Text from a file on its way into a message or a terminal: one line, no control characters, bounded length.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// The text with backslash, C0 and C1 controls, DEL and bytes that are not UTF-8 written as \\, \n, \t or
/// \xNN. What would make it longer than about max_bytes is cut off and replaced by "...".
std::string printable(std::string_view text, size_t max_bytes = 120);

/// printable() between single quotes: how messages show keys and names.
std::string quote_name(std::string_view text);

}  // namespace tessera
