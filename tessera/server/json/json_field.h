// JSON in requests.
#pragma once

#include <string_view>

#include "tessera/json/json.h"
#include "tessera/server/json/field_error.h"

namespace tessera::server {

/// Reads a text that is one JSON value, within the limits of tessera/json/reader.h.
/// Errors: 400, with the offset of a byte.
FieldResult<Json> read_json_field(std::string_view text);

}  // namespace tessera::server
