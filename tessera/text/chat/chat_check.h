// The check of a chat request before it is rendered: the types of its fields, and limits on its variables.
#pragma once

#include <cstddef>

#include "tessera/base/result.h"
#include "tessera/text/chat/chat_template.h"

namespace tessera::text {

/// Limits on the variables of a request. A value counts as the bytes of its texts and 8 bytes for each value inside.
inline constexpr size_t kMaxChatVariables = 64;
inline constexpr size_t kMaxChatVariableBytes = size_t{1} << 20;
inline constexpr size_t kMaxChatVariableDepth = 64;

/// Checks that the messages are a list of dicts with a role, that the tools are a list, and that the variables are a
/// dict within the limits. Errors: invalid_argument; limit. The message begins with the path of the field.
Result<> check_chat(const ChatRequest& request);

}  // namespace tessera::text
