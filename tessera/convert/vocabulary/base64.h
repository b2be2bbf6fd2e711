// Base64 (RFC 4648, section 4).
#pragma once

#include <string>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera::convert {

/// The bytes of a text. Padding may be left out. Error: format (another character, a length that no bytes have).
Result<std::string> decode_base64(std::string_view text);

}  // namespace tessera::convert
