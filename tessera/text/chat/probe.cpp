#include "tessera/text/chat/probe.h"

#include <fmt/format.h>

#include "tessera/text/chat/value_tools.h"

namespace tessera::text::probe {
namespace {

using jinja::Heap;
using jinja::Value;

std::tm probe_clock() {
  std::tm now{};
  now.tm_year = 126;
  now.tm_mday = 1;
  return now;
}

Value probe_tools(Heap& heap) {
  const Value argument = make_dict(heap, {{"type", heap.text("string")}, {"description", heap.text("an argument")}});
  const Value parameters = make_dict(heap, {{"type", heap.text("object")},
                                            {"properties", make_dict(heap, {{kKey, argument}})},
                                            {"required", make_list(heap, {heap.text(kKey)})}});
  const Value function =
      make_dict(heap, {{"name", heap.text(kTool)}, {"description", heap.text("a tool")}, {"parameters", parameters}});
  return make_list(heap, {make_dict(heap, {{"type", heap.text("function")}, {"function", function}})});
}

Value arguments(Heap& heap, const Calls& calls) {
  if (calls.form.arguments != ArgumentForm::text) {
    const Value object = make_dict(heap, {{kKey, heap.text(kValue)}});
    if (calls.has_number) set_member(heap, object, kNumberKey, Value::integer(4711));
    return object;
  }
  const std::string number = calls.has_number ? fmt::format(", \"{}\": {}", kNumberKey, kNumber) : "";
  return heap.text(fmt::format("{{\"{}\": \"{}\"{}}}", kKey, kValue, number));
}

Value call(Heap& heap, std::string_view name, std::string_view id, const Calls& calls) {
  const Value function = make_dict(heap, {{"name", heap.text(name)}, {"arguments", arguments(heap, calls)}});
  return make_dict(heap, {{"id", heap.text(id)}, {"type", heap.text("function")}, {"function", function}});
}

}  // namespace

std::string Probe::render_list(Heap& heap, jinja::List* messages) const {
  std::vector<jinja::Variable> variables{{"messages", Value::list(messages)},
                                         {"add_generation_prompt", Value::boolean(add_generation_prompt)},
                                         {"enable_thinking", Value::boolean(enable_thinking)},
                                         {"bos_token", heap.text(bos_)},
                                         {"eos_token", heap.text(eos_)}};
  if (has_tools) variables.push_back({"tools", probe_tools(heap)});
  const auto rendered = template_.render(heap, variables, probe_clock());
  return rendered ? rendered->prompt.text : "";
}

Value message(Heap& heap, std::string_view role, const Value& content) {
  return make_dict(heap, {{"role", heap.text(role)}, {"content", content}});
}

Value result(Heap& heap, std::string_view name, std::string_view id) {
  const Value message_of_tool = message(heap, "tool", heap.text(kResult));
  set_member(heap, message_of_tool, "tool_call_id", heap.text(id));
  set_member(heap, message_of_tool, "name", heap.text(name));
  return message_of_tool;
}

void add_user(Heap& heap, jinja::List& messages) { messages.items.push_back(message(heap, "user", heap.text(kUser))); }

void add_calls(Heap& heap, jinja::List& messages, const Calls& calls) {
  const bool is_null = calls.content.empty() && calls.form.content == CallContent::null;
  const Value answer = message(heap, "assistant", is_null ? Value::none() : heap.text(calls.content));
  const Value list = make_list(heap, {call(heap, kTool, kFirstId, calls)});
  if (calls.is_parallel) list.as_list().items.push_back(call(heap, kSecondTool, kSecondId, calls));
  set_member(heap, answer, "tool_calls", list);
  if (calls.has_reasoning) set_member(heap, answer, "reasoning_content", heap.text(kReasoning));
  messages.items.push_back(answer);
}

}  // namespace tessera::text::probe
