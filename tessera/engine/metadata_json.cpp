#include "tessera/engine/metadata_json.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "tessera/text/json_quoted.h"

namespace tessera {

namespace {

std::string json_scalar(const GgufValue& value) {
  switch (value.type()) {
    case GgufType::string:
      return text::json_quoted(*value.as<std::string_view>());
    case GgufType::boolean:
      return *value.as<bool>() ? "true" : "false";
    case GgufType::f32: {
      const float number = *value.as<float>();
      return std::isfinite(number) ? fmt::format("{}", number) : "null";
    }
    case GgufType::f64: {
      const double number = *value.as<double>();
      return std::isfinite(number) ? fmt::format("{}", number) : "null";
    }
    default:
      break;
  }
  if (const auto number = value.as<int64_t>()) return std::to_string(*number);
  return std::to_string(*value.as<uint64_t>());
}

}  // namespace

// Hostile files contain deeply nested arrays. An explicit stack avoids recursion.
Result<> write_json(const GgufValue& value, JsonSink sink) {
  if (!value.is_array()) return sink(json_scalar(value));
  struct Level {
    GgufValue array;
    size_t next = 0;
  };
  std::vector<Level> stack = {{value}};
  TESSERA_TRY(sink("["));
  while (!stack.empty()) {
    Level& level = stack.back();
    if (level.next == level.array.size()) {
      TESSERA_TRY(sink("]"));
      stack.pop_back();
      continue;
    }
    const GgufValue element = level.array[level.next++];
    if (level.next > 1) TESSERA_TRY(sink(","));
    TESSERA_TRY(sink(element.is_array() ? "[" : json_scalar(element)));
    if (element.is_array()) stack.push_back({element});
  }
  return {};
}

}  // namespace tessera
