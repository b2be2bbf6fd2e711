// Functions: name(arguments).

#include "tessera/base/index.h"
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/clock.h"
#include "tessera/text/template/error.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/template/print.h"

namespace tessera::text::jinja {
namespace {

// The dict that dict(...) and namespace(...) make of their arguments: a dict or pairs, then keywords.
Result<Dict*> dict_of(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) return fail(ErrorCode::invalid_argument, "takes 1 argument and names");
  TESSERA_ASSIGN(Dict * dict, runtime.create_dict(arguments.keywords.size()));
  if (!arguments.positional.empty() && arguments.positional[0].is(Kind::dict)) {
    for (const Dict::Entry& entry : arguments.positional[0].as_dict().entries) {
      TESSERA_TRY(runtime.spend_values(1));
      dict->set(entry.key, entry.value);
    }
  } else if (!arguments.positional.empty()) {
    TESSERA_ASSIGN(const List* pairs, elements(runtime, arguments.positional[0]));
    for (const Value& pair : pairs->items) {
      TESSERA_TRY(runtime.spend_values(1));
      if (!pair.is_sequence() || pair.as_list().items.size() != 2 || !is_hashable(pair.as_list().items[0]))
        return fail(ErrorCode::invalid_argument, "element is not a pair of key and value");
      dict->set(pair.as_list().items[0], pair.as_list().items[1]);
    }
  }
  for (const Arguments::Keyword& keyword : arguments.keywords)
    dict->set(runtime.heap().text(keyword.name), keyword.value);
  return dict;
}

}  // namespace

Result<Value> function_dict(Runtime& runtime, const Bound&, const Arguments& arguments) {
  TESSERA_ASSIGN(Dict * dict, dict_of(runtime, arguments));
  return Value::dict(dict);
}

Result<Value> function_namespace(Runtime& runtime, const Bound&, const Arguments& arguments) {
  TESSERA_ASSIGN(Dict * members, dict_of(runtime, arguments));
  return Value::of(runtime.heap().create<Namespace>(members));
}

Result<Value> function_range(Runtime& runtime, const Bound& bound, const Arguments&) {
  if (!bound.has(0)) return fail(ErrorCode::invalid_argument, "range() takes 1 to 3 arguments");
  TESSERA_ASSIGN(const int64_t first, bound.integer(0, 0));
  TESSERA_ASSIGN(const int64_t second, bound.integer(1, 0));
  TESSERA_ASSIGN(const int64_t step, bound.integer(2, 1));
  if (step == 0) return fail(ErrorCode::invalid_argument, "range() with a step of 0");
  const int64_t start = bound.has(1) ? first : 0, stop = bound.has(1) ? second : first;
  List* list = runtime.heap().create_list();
  // Counted before it is built: an element at a time, until a limit ends it.
  TESSERA_ASSIGN(const Value distance, compute(Arithmetic::subtract, Value::integer(stop), Value::integer(start)));
  TESSERA_ASSIGN(const Value n, compute(Arithmetic::floor_divide, distance, Value::integer(step)));
  TESSERA_ASSIGN(const Value rest, compute(Arithmetic::modulo, distance, Value::integer(step)));
  const int64_t count = n.as_integer() + (rest.as_integer() != 0 ? 1 : 0);
  if (count <= 0) return Value::list(list);
  TESSERA_TRY(runtime.spend_values(to_size(count)));
  list->items.reserve(to_size(count));
  for (int64_t i = 0; i < count; ++i) list->items.push_back(Value::integer(start + i * step));
  return Value::list(list);
}

Result<Value> function_cycler(Runtime& runtime, const Bound&, const Arguments& arguments) {
  if (arguments.positional.empty()) return fail(ErrorCode::invalid_argument, "cycler() takes at least 1 argument");
  TESSERA_ASSIGN(List * items, runtime.create_list(arguments.positional.size()));
  items->items.assign(arguments.positional.begin(), arguments.positional.end());
  return Value::of(runtime.heap().create<Cycler>(items));
}

Result<Value> function_joiner(Runtime& runtime, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const MarkedView separator, bound.text(0, ", "));
  return Value::of(runtime.heap().create<Joiner>(runtime.heap().text(separator)));
}

Result<Value> function_raise_exception(Runtime& runtime, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value message, text_of(runtime, bound.has(0) ? bound[0] : Value::none()));
  return fail(kRaised, "{}", message.bytes());
}

Result<Value> function_strftime_now(Runtime& runtime, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const MarkedView format, bound.text(0, ""));
  TESSERA_TRY(runtime.spend_bytes(format.bytes.size()));
  TESSERA_ASSIGN(const std::string text, format_time(runtime.now(), format.bytes));
  return runtime.text(text);
}

}  // namespace tessera::text::jinja
