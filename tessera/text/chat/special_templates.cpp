#include "tessera/text/chat/special_templates.h"

#include "tessera/text/chat/value_tools.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/json_reader.h"

namespace tessera::text {
namespace {

using jinja::Heap;
using jinja::List;
using jinja::Value;

bool is_of_role(const Value& message, std::string_view role) { return text_member(message, "role") == role; }

bool is_filled_list(const Value& value) { return value.is_sequence() && !value.as_list().items.empty(); }

Value trimmed_text(Heap& heap, const Value& text) {
  const std::string_view bytes = text.bytes();
  const size_t begin = jinja::leading_space(bytes);
  const size_t n_back = begin == bytes.size() ? 0 : jinja::trailing_space(bytes);
  return heap.slice(text.as_text(), begin, bytes.size() - n_back);
}

void trim_member(Heap& heap, const Value& dict, std::string_view name) {
  const Value value = member_of(dict, name);
  if (value.is_text()) set_member(heap, dict, name, trimmed_text(heap, value));
}

Value response_of(Heap& heap, const Value& result) {
  Value content = member_of(result, "content");
  if (content.is_text()) {
    const auto json = jinja::parse_json(heap, content.bytes(), Origin::given);
    if (json) content = json->value;
  }
  const Value name = member_of(result, "name");
  const Value response = make_dict(heap, {{"response", content}});
  if (!name.is_missing()) set_member(heap, response, "name", name);
  return response;
}

// Takes the content of an answer behind the results if the message has none.
bool take_answer(Heap& heap, const Value& message, const Value& answer) {
  const Value content = member_of(message, "content");
  const bool is_empty = content.is_none() || (content.is_text() && content.bytes().empty());
  if (!is_empty || !is_of_role(answer, "assistant") || is_filled_list(member_of(answer, "tool_calls"))) return false;
  set_member(heap, message, "content", member_of(answer, "content"));
  return true;
}

}  // namespace

bool wants_trimmed_contents(std::string_view source) {
  return source.contains("You have access to the following functions in JSONSchema format");
}

void trim_contents(Heap& heap, const Value& message) {
  trim_member(heap, message, "content");
  trim_member(heap, message, "reasoning_content");
  const Value content = member_of(message, "content");
  if (!content.is_sequence()) return;
  List* parts = heap.create_list();
  for (const Value& part : content.as_list().items) {
    const bool is_dict = part.is(jinja::Kind::dict);
    parts->items.push_back(is_dict ? copy_dict(heap, part) : part);
    if (is_dict) trim_member(heap, parts->items.back(), "text");
  }
  set_member(heap, message, "content", Value::list(parts));
}

bool wants_folded_results(std::string_view source) {
  return source.contains("<|tool_call>") && source.contains("tool_responses") &&
         !source.contains("{#- OpenAI Chat Completions");
}

List* fold_results(Heap& heap, const List& messages) {
  List* folded = heap.create_list();
  const auto& items = messages.items;
  for (size_t i = 0; i < items.size(); ++i) {
    folded->items.push_back(items[i]);
    if (!is_filled_list(member_of(items[i], "tool_calls"))) continue;
    const Value responses = Value::list(heap.create_list());
    for (; i + 1 < items.size() && is_of_role(items[i + 1], "tool"); ++i) {
      responses.as_list().items.push_back(response_of(heap, items[i + 1]));
    }
    if (!is_filled_list(responses)) continue;
    set_member(heap, folded->items.back(), "tool_responses", responses);
    if (i + 1 < items.size() && take_answer(heap, folded->items.back(), items[i + 1])) ++i;
  }
  return folded;
}

}  // namespace tessera::text
