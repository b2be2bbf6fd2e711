// Random access to JSON text: its kind, its members and its elements, as views of the text. Each call reads the text
// once, without recursion and with the depth limit of JsonReader.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

struct JsonMember {
  std::string key;         // decoded
  std::string_view value;  // JSON text without blanks around it
};

/// Whether the text is one JSON value, with blanks around it at most.
bool is_json(std::string_view text);

/// Returns the text without JSON blanks at its ends.
std::string_view trim_json(std::string_view text);

/// Returns the members of an object, in their order, or nothing if the text is not a JSON object.
std::optional<std::vector<JsonMember>> json_members(std::string_view text);

/// Returns the value of a member of an object, or "" if the text is no object or has no such member.
std::string_view json_member(std::string_view text, std::string_view key);

/// Returns the elements of a list, or nothing if the text is not a JSON list.
std::optional<std::vector<std::string_view>> json_elements(std::string_view text);

/// Returns the decoded text of a JSON string, or nothing if the text is not a JSON string.
std::optional<std::string> json_string(std::string_view text);

}  // namespace tessera::text
