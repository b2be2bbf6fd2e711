#include "tessera/text/chat/value_tools.h"

#include <algorithm>

#include "tessera/base/index.h"

namespace tessera::text {

using jinja::Dict;
using jinja::Heap;
using jinja::List;
using jinja::Value;

Value make_dict(Heap& heap, std::initializer_list<std::pair<std::string_view, Value>> members) {
  Dict* dict = heap.create_dict();
  for (const auto& [name, value] : members) dict->set(heap.text(name), value);
  return Value::dict(dict);
}

Value make_list(Heap& heap, std::initializer_list<Value> elements) {
  List* list = heap.create_list();
  list->items.assign(elements);
  return Value::list(list);
}

Value copy_dict(Heap& heap, const Value& dict) {
  Dict* copy = heap.create_dict();
  copy->assign(dict.as_dict());
  return Value::dict(copy);
}

void set_member(Heap& heap, const Value& dict, std::string_view name, const Value& value) {
  dict.as_dict().set(heap.text(name), value);
}

Value member_of(const Value& dict, std::string_view name) {
  if (!dict.is(jinja::Kind::dict)) return {};
  const Value* found = dict.as_dict().find(name);
  return found == nullptr ? Value() : *found;
}

std::string_view text_member(const Value& dict, std::string_view name) {
  const Value value = member_of(dict, name);
  return value.is_text() ? value.bytes() : std::string_view();
}

std::string_view added_text(std::string_view without, std::string_view with) {
  const auto [end, other] = std::ranges::mismatch(with, without);
  size_t cut = to_size(end - with.begin());
  const std::string_view before = with.substr(0, cut);
  const size_t open = before.rfind('<');
  if (open != std::string_view::npos && before.find('>', open) == std::string_view::npos && cut < with.size())
    cut = open;
  return with.substr(cut);
}

}  // namespace tessera::text
