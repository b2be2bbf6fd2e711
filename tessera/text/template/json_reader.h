// Reads JSON into values of the template language. Depth and number of values are limited, and nothing recurses.
#pragma once

#include <cstddef>
#include <string_view>

#include "tessera/base/result.h"
#include "tessera/text/template/value.h"

namespace tessera::text::jinja {

struct JsonLimits {
  size_t max_depth = 64;
  size_t max_values = size_t{1} << 20;
};

struct ParsedJson {
  Value value;
  size_t n_values = 0;  // elements and members at all levels
};

/// Parses a whole text as one JSON value. Texts, keys included, have the given origin. An integer outside 64 bits
/// becomes a real. Errors: format ("not JSON: ... at byte N"); limit.
Result<ParsedJson> parse_json(Heap& heap, std::string_view text, Origin origin, const JsonLimits& limits = {});

}  // namespace tessera::text::jinja
