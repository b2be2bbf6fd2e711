// Parts of a tokenizer.json around its model: the normalizer, the post-processor and the added tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/vocabulary/added_tokens.h"
#include "tessera/convert/vocabulary/draft.h"
#include "tessera/json/json.h"

namespace tessera::convert {

struct NormalizerFacts {
  bool prepends_space = false;        // U+2581 in front of texts
  bool replaces_spaces = false;       // by U+2581
  bool removes_extra_spaces = false;  // a run of spaces becomes one
  bool has_byte_level = false;
  std::optional<bool> lowercase{}, strip_accents{};
  std::string charsmap{};  // bytes
};

/// Reads what a normalizer does; null does nothing. Errors: format; limit (more than 64 parts).
Result<NormalizerFacts> read_normalizer(const Json& json);

/// The tokens that a post-processor adds to texts. Nothing: it adds none, or there is none. Errors: format, limit.
Result<std::optional<TextEnds>> read_post_processor(const Json& json);

/// A list of added tokens; null is an empty one. Error: format.
Result<std::vector<AddedToken>> read_added_tokens(const Json& json);

}  // namespace tessera::convert
