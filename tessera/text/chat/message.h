// Messages of a conversation as plain values. Programs that hold a conversation keep these; a template reads them as
// values of its language, and files store them as JSON of the OpenAI API.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/text/chat/reply.h"
#include "tessera/text/template/value.h"

namespace tessera::text {

struct ChatMessage {
  std::string role;  // system, user, assistant or tool
  std::string content{};
  std::string reasoning{};        // of an assistant
  std::vector<ToolCall> calls{};  // of an assistant
  std::string call_id{};          // of a tool: the call that the content answers
  bool is_cut = false;            // of an assistant: stopped before its end

  bool operator==(const ChatMessage&) const = default;
};

/// Returns messages as a list of dicts: role, content, and where they are not empty reasoning_content, tool_calls and
/// tool_call_id. All texts but the names of the members are given, not trusted. Texts must be valid UTF-8.
jinja::Value messages_value(jinja::Heap& heap, std::span<const ChatMessage> messages);

/// Returns the places where turns begin, in messages: the first message that is not of the system, and each later
/// message of a user.
std::vector<size_t> turn_starts(std::span<const ChatMessage> messages);

}  // namespace tessera::text
