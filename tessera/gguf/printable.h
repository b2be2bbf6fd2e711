// Makes text from files safe for messages and terminals: one line, no control characters, bounded length.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Returns the text with backslash, C0 and C1 controls, DEL and bytes that are not UTF-8 written as \\, \n, \t or \xNN.
/// Text beyond about max_bytes is replaced by "...".
std::string printable(std::string_view text, size_t max_bytes = 120);

/// printable() between single quotes, the form of keys and names in messages.
std::string quote_name(std::string_view text);

}  // namespace tessera
