// Text as a JSON string, for whoever writes JSON piece by piece.
#pragma once

#include <string>
#include <string_view>

namespace tessera::text {

/// The text in quotes (RFC 8259, section 7); bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);

}  // namespace tessera::text
