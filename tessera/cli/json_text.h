// JSON that the token commands read and write. Input may be hostile, so it is parsed event by event into the expected
// lists: deeper nesting is refused and nothing else is stored. Errors name the line and column, or the element.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

/// Parses ["a", "b"]. Errors: format.
Result<std::vector<std::string>> parse_json_texts(std::string_view text);

/// Parses [[1, 2], [3]]. Errors: format; limit (an id outside int32_t).
Result<std::vector<std::vector<int32_t>>> parse_json_id_lists(std::string_view text);

}  // namespace tessera::cli
