#include "tessera/text/template/members.h"

#include <algorithm>

#include "tessera/text/template/builtins.h"
#include "tessera/text/template/operators.h"

namespace tessera::text::jinja {
namespace {

Value loop_member(const Loop& loop, const Value& name_value) {
  const std::string_view name = name_value.bytes();
  const auto& items = loop.items->items;
  const size_t n = items.size(), index0 = loop.n_started - 1;
  if (name == "index") return Value::size(index0 + 1);
  if (name == "index0") return Value::size(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(index0 + 1 >= n);
  if (name == "length") return Value::size(n);
  if (name == "revindex") return Value::size(n - std::min(index0, n));
  if (name == "revindex0") return Value::size(n - std::min(index0 + 1, n));
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem" && index0 > 0 && index0 - 1 < n) return items[index0 - 1];
  if (name == "nextitem" && index0 + 1 < n) return items[index0 + 1];
  return Value::undefined(&name_value.as_text());
}

}  // namespace

Result<Value> member(Runtime& runtime, const Value& object, const Value& name, bool may_be_method) {
  if (object.is_undefined()) return undefined_error(object);
  const Filter* method = may_be_method ? find_method(object.kind(), name.bytes()) : nullptr;
  if (method != nullptr && method->call == nullptr)
    return fail(ErrorCode::unsupported, "method '{}' of {} is forbidden", method->name, to_string(object.kind()));
  if (method != nullptr) return Value::of(runtime.heap().create<Method>(method, object));
  // Names with two underscores lead into the objects of Python.
  if (name.bytes().starts_with("__")) return fail(ErrorCode::unsupported, "member '{}' is forbidden", name.bytes());
  if (object.is(Kind::name_space)) return item(runtime, Value::dict(object.as<Namespace>().members), name);
  if (object.is(Kind::loop)) return loop_member(object.as<Loop>(), name);
  if (object.is(Kind::cycler) && name.bytes() == "current") {
    const Cycler& cycler = object.as<Cycler>();
    return cycler.items->items[cycler.at];
  }
  if (object.is(Kind::tuple) && object.as_list().is_group) {
    if (name.bytes() == "grouper") return object.as_list().items[0];
    if (name.bytes() == "list") return object.as_list().items[1];
  }
  return item(runtime, object, name);
}

}  // namespace tessera::text::jinja
