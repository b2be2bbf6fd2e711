// Tests: value is name(arguments).
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/operators.h"

namespace tessera::text::jinja {
namespace {

Result<int64_t> remainder(const Value& value, int64_t divisor) {
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_integer()) return fail(ErrorCode::invalid_argument, "{} is not an integer", to_string(value.kind()));
  if (divisor == 0) return fail(ErrorCode::invalid_argument, "division by zero");
  return divisor == -1 ? 0 : value.as_integer() % divisor;
}

}  // namespace

Result<bool> test_eq(Runtime& runtime, const Value& value, const Bound& bound) {
  return compare(runtime, Comparison::equal, value, bound[0]);
}
Result<bool> test_ne(Runtime& runtime, const Value& value, const Bound& bound) {
  return compare(runtime, Comparison::not_equal, value, bound[0]);
}
Result<bool> test_lt(Runtime& runtime, const Value& value, const Bound& bound) {
  return compare(runtime, Comparison::less, value, bound[0]);
}
Result<bool> test_le(Runtime& runtime, const Value& value, const Bound& bound) {
  return compare(runtime, Comparison::less_equal, value, bound[0]);
}
Result<bool> test_gt(Runtime& runtime, const Value& value, const Bound& bound) {
  return compare(runtime, Comparison::greater, value, bound[0]);
}
Result<bool> test_ge(Runtime& runtime, const Value& value, const Bound& bound) {
  return compare(runtime, Comparison::greater_equal, value, bound[0]);
}
Result<bool> test_in(Runtime& runtime, const Value& value, const Bound& bound) {
  return compare(runtime, Comparison::in, value, bound[0]);
}

Result<bool> test_defined(Runtime&, const Value& value, const Bound&) { return !value.is_undefined(); }
Result<bool> test_undefined(Runtime&, const Value& value, const Bound&) { return value.is_undefined(); }
Result<bool> test_none(Runtime&, const Value& value, const Bound&) { return value.is_none(); }
Result<bool> test_boolean(Runtime&, const Value& value, const Bound&) { return value.is(Kind::boolean); }
Result<bool> test_integer(Runtime&, const Value& value, const Bound&) { return value.is(Kind::integer); }
Result<bool> test_float(Runtime&, const Value& value, const Bound&) { return value.is(Kind::real); }
Result<bool> test_number(Runtime&, const Value& value, const Bound&) { return value.is_number(); }
Result<bool> test_string(Runtime&, const Value& value, const Bound&) { return value.is_text(); }
Result<bool> test_mapping(Runtime&, const Value& value, const Bound&) { return value.is(Kind::dict); }
Result<bool> test_escaped(Runtime&, const Value&, const Bound&) { return false; }

Result<bool> test_true(Runtime&, const Value& value, const Bound&) {
  return value.is(Kind::boolean) && value.as_boolean();
}
Result<bool> test_false(Runtime&, const Value& value, const Bound&) {
  return value.is(Kind::boolean) && !value.as_boolean();
}

Result<bool> test_iterable(Runtime&, const Value& value, const Bound&) {
  return value.is_undefined() || value.is_text() || value.is_sequence() || value.is(Kind::dict);
}

Result<bool> test_callable(Runtime&, const Value& value, const Bound&) {
  switch (value.kind()) {
    case Kind::function:
    case Kind::method:
    case Kind::macro:
    case Kind::loop:
    case Kind::joiner:
      return true;
    default:
      return false;
  }
}

// The same object; scalars and texts are the same if they are equal and of one kind.
Result<bool> test_sameas(Runtime& runtime, const Value& value, const Bound& bound) {
  if (value.kind() != bound[0].kind()) return false;
  if (value.is_sequence() || value.is(Kind::dict)) return value.identity() == bound[0].identity();
  return equal(runtime, value, bound[0]);
}

Result<bool> test_odd(Runtime&, const Value& value, const Bound&) {
  TESSERA_ASSIGN(const int64_t rest, remainder(value, 2));
  return rest != 0;
}
Result<bool> test_even(Runtime&, const Value& value, const Bound&) {
  TESSERA_ASSIGN(const int64_t rest, remainder(value, 2));
  return rest == 0;
}
Result<bool> test_divisibleby(Runtime&, const Value& value, const Bound& bound) {
  TESSERA_ASSIGN(const int64_t divisor, bound.integer(0, 0));
  TESSERA_ASSIGN(const int64_t rest, remainder(value, divisor));
  return rest == 0;
}

Result<bool> test_lower(Runtime& runtime, const Value& value, const Bound&) {
  if (!value.is_text()) return false;
  TESSERA_TRY(runtime.spend_bytes(value.bytes().size()));
  return has_only_case(value.bytes(), is_lower, is_upper);
}
Result<bool> test_upper(Runtime& runtime, const Value& value, const Bound&) {
  if (!value.is_text()) return false;
  TESSERA_TRY(runtime.spend_bytes(value.bytes().size()));
  return has_only_case(value.bytes(), is_upper, is_lower);
}

Result<bool> test_filter(Runtime&, const Value& value, const Bound&) {
  return value.is_text() && find_filter(value.bytes()) != nullptr;
}
Result<bool> test_test(Runtime&, const Value& value, const Bound&) {
  return value.is_text() && find_test(value.bytes()) != nullptr;
}

}  // namespace tessera::text::jinja
