// The tools of a request, as a reply parser needs them: their names, and the JSON types of their arguments. Schemas
// come from clients, so anything in them that cannot be read allows every type.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::text {

/// A tool as a request describes it.
struct ReplyTool {
  std::string name;
  std::string parameters;  // JSON text of the schema of the arguments; empty: the tool takes none
  bool is_strict = true;   // calls follow the schema; false: the arguments may be any object

  bool operator==(const ReplyTool&) const = default;
};

/// Reads a JSON list of definitions: functions with a name and parameters, or objects that hold one as "function".
/// Errors: format ("tools[2]: has no name").
Result<std::vector<ReplyTool>> parse_reply_tools(std::string_view json);

/// JSON types in the order in which a text is tried as each of them.
enum class JsonType : uint8_t { null, boolean, number, integer, array, object, string };

/// A set of JSON types. Number includes integer.
class JsonTypes {
 public:
  void add(JsonType type) { bits_ = static_cast<uint8_t>(bits_ | 1u << static_cast<unsigned>(type)); }
  bool has(JsonType type) const { return (bits_ >> static_cast<unsigned>(type) & 1) != 0; }
  bool is_only_string() const { return bits_ == 1u << static_cast<unsigned>(JsonType::string); }
  bool is_unknown() const { return bits_ == 0; }
  bool has_number() const { return has(JsonType::number) || has(JsonType::integer); }

 private:
  uint8_t bits_ = 0;
};

class ToolSet {
 public:
  explicit ToolSet(std::span<const ReplyTool> tools);

  bool is_empty() const { return tools_.empty(); }
  bool knows(std::string_view name) const { return tools_.contains(name); }
  std::vector<std::string> names() const;

  /// Returns the types that a tool allows for an argument. Unknown tools and arguments have unknown types.
  JsonTypes types(std::string_view tool, std::string_view argument) const;

 private:
  std::map<std::string, std::map<std::string, JsonTypes, std::less<>>, std::less<>> tools_;
};

/// An argument as JSON, made from its text in a reply.
struct TypedArgument {
  std::string json;
  bool fits = true;  // whether the text is of one of the types
};

/// Converts the text of an argument. With unknown types: JSON if the text is JSON, else a string. With known types: the
/// first type that the text is JSON of; else a string, which fits if the types include string.
TypedArgument type_argument(std::string_view text, JsonTypes types);

}  // namespace tessera::text
