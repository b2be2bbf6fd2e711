// The shape of a JSON text: how many values each container has. The reader measures it first. So containers are
// allocated once, and a text beyond a limit is refused before anything is built.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/json/reader.h"

namespace tessera {

struct JsonShape {
  std::vector<uint32_t> sizes;  // values of each container, in the order of their opening brackets
};

/// Measures a text. Where the text is not JSON the shape may end early, at or after the first error.
/// Errors: a limit of depth, values or memory, with the offset of the byte.
Result<JsonShape> measure_json(std::string_view text, const JsonLimits& limits);

}  // namespace tessera
