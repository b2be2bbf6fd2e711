// Values that a model wrote as tags inside tags: objects, and lists whose elements are called "item".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::text {

/// Converts tags to JSON: with mark M, M<a>1M</a>M<b>xM</b> is {"a": 1, "b": "x"}, and M<item>1M</item> is [1]. Text in
/// tags is JSON if it parses, else a string. Returns nothing if mark is empty, or if the text is not of this form or
/// has over kMaxJsonDepth levels.
std::optional<std::string> nested_tags_to_json(std::string_view text, std::string_view mark);

}  // namespace tessera::text
