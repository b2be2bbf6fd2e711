// Reads the JSON of a request body within limits. Bodies are hostile: a text is measured before anything of it is
// built, so a refused one costs no more memory than itself. Time is linear in the text, and nothing recurses.
//
// The tree is at most 4 times the text and 8 MiB larger. JSON of few bytes per value, such as [[],[],[]], would need 20
// to 40 times its text.
#pragma once

#include <cstddef>
#include <string_view>

#include "tessera/server/json/field_error.h"
#include "tessera/server/json/json.h"

namespace tessera::server {

struct JsonLimits {
  size_t max_depth = 128;                   // containers inside each other
  size_t max_values = size_t{1} << 22;      // of all kinds, containers included
  size_t max_key_bytes = size_t{64} << 10;  // of one key
  size_t tree_bytes = size_t{8} << 20;      // memory of the tree: this, and
  size_t tree_bytes_per_byte = 4;           // this for each byte of the text
};

/// Reads a text that is one JSON value (RFC 8259).
/// Errors, each with the offset of a byte: an empty text; syntax; a byte that is not UTF-8; a lone surrogate; a number
/// outside of double (1e999); two equal keys in an object; a limit.
FieldResult<Json> read_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace tessera::server
