// Members of objects: object.name.
#pragma once

#include "tessera/text/template/runtime.h"

namespace tessera::text::jinja {

/// object.name: a method, or else an element; undefined if there is neither. may_be_method: the result of
/// is_method_name(). Errors: not_found (the object is undefined); unsupported (a forbidden name).
Result<Value> member(Runtime& runtime, const Value& object, const Value& name, bool may_be_method);

}  // namespace tessera::text::jinja
