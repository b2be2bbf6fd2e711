#include "tessera/text/chat/tool_set.h"

#include <algorithm>
#include <array>

#include "tessera/text/chat/json_view.h"
#include "tessera/text/json_quoted.h"

namespace tessera::text {
namespace {

constexpr size_t kMaxSchemaParts = 64;  // alternatives and references of one argument

struct TypeName {
  std::string_view name;
  JsonType type;
};

constexpr TypeName kTypeNames[] = {
    {"null", JsonType::null},       {"boolean", JsonType::boolean}, {"number", JsonType::number},
    {"integer", JsonType::integer}, {"array", JsonType::array},     {"object", JsonType::object},
    {"string", JsonType::string},
};

void add_type_name(std::string_view quoted, JsonTypes& types) {
  const auto name = json_string(quoted);
  if (!name) return;
  const auto found = std::ranges::find(kTypeNames, *name, &TypeName::name);
  if (found != std::end(kTypeNames)) types.add(found->type);
}

// Returns the narrowest type of valid JSON text. A number without fraction and exponent is an integer.
JsonType type_of_json(std::string_view json) {
  switch (json.front()) {
    case 'n':
      return JsonType::null;
    case 't':
    case 'f':
      return JsonType::boolean;
    case '[':
      return JsonType::array;
    case '{':
      return JsonType::object;
    case '"':
      return JsonType::string;
    default:
      return json.find_first_of(".eE") == json.npos ? JsonType::integer : JsonType::number;
  }
}

// Returns the part of the schema that a reference such as "#/$defs/Point" names, or "".
std::string_view resolve(std::string_view root, std::string_view quoted) {
  const auto path = json_string(quoted);
  if (!path || !path->starts_with("#/")) return {};
  std::string_view at = root;
  for (std::string_view rest = std::string_view(*path).substr(2); !rest.empty();) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    at = json_member(at, rest.substr(0, slash));
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  return at;
}

// Adds the types of one part of a schema, and lists the parts that it refers to.
void add_types(std::string_view root, std::string_view schema, JsonTypes& types, std::vector<std::string_view>& parts) {
  const auto append_list = [](std::string_view list, std::vector<std::string_view>& to) {
    if (const auto elements = json_elements(list)) to.insert(to.end(), elements->begin(), elements->end());
  };
  std::vector<std::string_view> values;
  const auto members = json_members(schema);
  if (!members) return;
  for (const JsonMember& member : *members) {
    if (member.key == "$ref") parts.push_back(resolve(root, member.value));
    if (member.key == "anyOf" || member.key == "oneOf") append_list(member.value, parts);
    if (member.key == "enum") append_list(member.value, values);
    if (member.key == "const") values.push_back(member.value);
    if (member.key != "type") continue;
    add_type_name(member.value, types);
    if (const auto names = json_elements(member.value))
      for (const std::string_view name : *names) add_type_name(name, types);
  }
  for (const std::string_view value : values) types.add(type_of_json(value));
}

JsonTypes types_of_schema(std::string_view root, std::string_view schema) {
  JsonTypes types;
  std::vector<std::string_view> parts{schema};
  for (size_t i = 0; i < parts.size() && i < kMaxSchemaParts; ++i) add_types(root, parts[i], types, parts);
  return types;
}

}  // namespace

Result<std::vector<ReplyTool>> parse_reply_tools(std::string_view json) {
  const auto definitions = json_elements(json);
  if (!definitions) return fail(ErrorCode::format, "tools: not a JSON list");
  std::vector<ReplyTool> tools;
  for (const std::string_view definition : *definitions) {
    const std::string_view wrapped = json_member(definition, "function");
    const std::string_view function = wrapped.empty() ? definition : wrapped;
    auto name = json_string(json_member(function, "name"));
    if (!name) return fail(ErrorCode::format, "tools[{}]: has no name", tools.size());
    const bool is_strict = json_member(function, "strict") != "false";
    tools.push_back({std::move(*name), std::string(json_member(function, "parameters")), is_strict});
  }
  return tools;
}

ToolSet::ToolSet(std::span<const ReplyTool> tools) {
  for (const ReplyTool& tool : tools) {
    auto& arguments = tools_[tool.name];
    const auto properties = json_members(json_member(tool.parameters, "properties"));
    if (!properties) continue;
    for (const JsonMember& property : *properties)
      arguments[property.key] = types_of_schema(tool.parameters, property.value);
  }
}

std::vector<std::string> ToolSet::names() const {
  std::vector<std::string> names;
  for (const auto& [name, arguments] : tools_) names.push_back(name);
  return names;
}

JsonTypes ToolSet::types(std::string_view tool, std::string_view argument) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return {};
  const auto types = found->second.find(argument);
  return types == found->second.end() ? JsonTypes() : types->second;
}

TypedArgument type_argument(std::string_view text, JsonTypes types) {
  const std::string_view json = trim_json(text);
  if (is_json(json)) {
    const JsonType type = type_of_json(json);
    const bool fits = types.has(type) || (type == JsonType::integer && types.has(JsonType::number));
    const bool is_text = type == JsonType::string && types.has(JsonType::string);
    if (types.is_unknown() || (fits && !is_text)) return {std::string(json)};
  }
  // The models of some families write these as their Python chat templates do.
  if (types.has(JsonType::boolean) && (json == "True" || json == "False")) return {json == "True" ? "true" : "false"};
  return {json_quoted(text), types.is_unknown() || types.has(JsonType::string)};
}

}  // namespace tessera::text
