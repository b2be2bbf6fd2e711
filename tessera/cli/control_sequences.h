// Control sequences that several parts of a terminal chat write (ECMA-48, 8.3).
#pragma once

#include <string_view>

namespace tessera::cli {

inline constexpr std::string_view kEraseBelow = "\x1b[J";   // from the cursor to the end of the screen
inline constexpr std::string_view kEraseRowEnd = "\x1b[K";  // from the cursor to the end of the row

}  // namespace tessera::cli
