// Tool calls as JSON of the OpenAI API. Saved chats and the replies of a piped chat hold it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "tessera/text/chat/reply.h"

namespace tessera::cli {

/// Returns a list of {"id", "type": "function", "function": {"name", "arguments"}}. The arguments are JSON text.
nlohmann::ordered_json tool_calls_json(std::span<const text::ToolCall> calls);

}  // namespace tessera::cli
