#include "tessera/cli/tool_call_json.h"

#include <nlohmann/json.hpp>

namespace tessera::cli {

nlohmann::ordered_json tool_calls_json(std::span<const text::ToolCall> calls) {
  auto list = nlohmann::ordered_json::array();
  for (const text::ToolCall& call : calls)
    list.push_back(
        {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  return list;
}

}  // namespace tessera::cli
