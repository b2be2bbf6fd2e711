// Reads JSON within limits. Texts are hostile: one is measured before anything of it is built, so a refused text costs
// no more memory than itself. Time is linear in the text, and nothing recurses.
//
// The tree is at most 4 times the text and 8 MiB larger. JSON of few bytes per value, such as [[],[],[]], would need 20
// to 40 times its text.
#pragma once

#include <cstddef>
#include <string_view>

#include "tessera/base/result.h"
#include "tessera/json/json.h"

namespace tessera {

inline constexpr size_t kMaxJsonDepth = 128;

struct JsonLimits {
  size_t max_depth = kMaxJsonDepth;         // containers inside each other, at most as many as that
  size_t max_values = size_t{1} << 22;      // of all kinds, containers included
  size_t max_key_bytes = size_t{64} << 10;  // of one key
  size_t tree_bytes = size_t{8} << 20;      // memory of the tree: this, and
  size_t tree_bytes_per_byte = 4;           // this for each byte of the text
};

/// Reads a text that is one JSON value (RFC 8259).
/// Errors, each with the offset of a byte: format (an empty text; syntax; a byte that is not UTF-8; a lone surrogate; a
/// number outside of double, such as 1e999; two equal keys in an object); limit.
Result<JsonTree> read_json_tree(std::string_view text, const JsonLimits& limits = {});
/// The same as a plain value, whose destructor takes memory: for programs that may end when there is none.
Result<Json> read_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace tessera
