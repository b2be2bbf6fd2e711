// Finds a value in a JSON object without building the tree: the model's name decides who reads a request.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::server {

/// The text of a key of the object itself, or nothing: no such key, no text, no object, or not JSON up to there. Time
/// is linear in the text, and reading stops at the key.
std::optional<std::string> find_top_level_text(std::string_view text, std::string_view key);
/// Whether the value of a key is `true`, under the same conditions.
bool has_top_level_true(std::string_view text, std::string_view key);

}  // namespace tessera::server
