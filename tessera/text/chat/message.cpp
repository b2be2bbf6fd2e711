#include "tessera/text/chat/message.h"

#include "tessera/text/chat/value_tools.h"

namespace tessera::text {
namespace {

using jinja::Heap;
using jinja::Value;

Value given_text(Heap& heap, std::string_view text) { return heap.text(text, Origin::given); }

Value call_value(Heap& heap, const ToolCall& call) {
  const Value function =
      make_dict(heap, {{"name", given_text(heap, call.name)}, {"arguments", given_text(heap, call.arguments)}});
  const Value value = make_dict(heap, {{"type", heap.text("function")}, {"function", function}});
  if (!call.id.empty()) set_member(heap, value, "id", given_text(heap, call.id));
  return value;
}

Value message_value(Heap& heap, const ChatMessage& message) {
  const Value value =
      make_dict(heap, {{"role", given_text(heap, message.role)}, {"content", given_text(heap, message.content)}});
  if (!message.reasoning.empty()) set_member(heap, value, "reasoning_content", given_text(heap, message.reasoning));
  if (!message.call_id.empty()) set_member(heap, value, "tool_call_id", given_text(heap, message.call_id));
  if (!message.calls.empty()) {
    const Value calls = make_list(heap, {});
    for (const ToolCall& call : message.calls) calls.as_list().items.push_back(call_value(heap, call));
    set_member(heap, value, "tool_calls", calls);
  }
  return value;
}

}  // namespace

Value messages_value(Heap& heap, std::span<const ChatMessage> messages) {
  const Value list = make_list(heap, {});
  for (const ChatMessage& message : messages) list.as_list().items.push_back(message_value(heap, message));
  return list;
}

std::vector<size_t> turn_starts(std::span<const ChatMessage> messages) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (starts.empty() ? role != "system" : role == "user") starts.push_back(i);
  }
  return starts;
}

}  // namespace tessera::text
