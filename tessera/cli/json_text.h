// JSON that the token commands read and write. Input is hostile: it is parsed event by event into the wanted lists, so
// nothing nests deeper than they do and nothing else is stored. Errors say where (line and column, or element).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

/// ["a", "b"]. Errors: format.
Result<std::vector<std::string>> parse_json_texts(std::string_view text);

/// [[1, 2], [3]]. Errors: format; limit (an id that is no int32_t).
Result<std::vector<std::vector<int32_t>>> parse_json_id_lists(std::string_view text);

}  // namespace tessera::cli
