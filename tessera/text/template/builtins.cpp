#include "tessera/text/template/builtins.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/utf8.h"

namespace tessera::text::jinja {
namespace {

#define TESSERA_FILTER(name, function, parameters) Filter{name, parameters, function},
#define TESSERA_TEST(name, function, parameters)
#define TESSERA_FUNCTION(name, function, parameters)
#define TESSERA_METHOD(kind, name, function, parameters)
#define TESSERA_FORBIDDEN(kind, name)
constexpr std::array kFilters{
#include "tessera/text/template/builtins.def"
};
#undef TESSERA_FILTER
#undef TESSERA_TEST
#define TESSERA_FILTER(name, function, parameters)
#define TESSERA_TEST(name, function, parameters) Test{name, parameters, function},
constexpr std::array kTests{
#include "tessera/text/template/builtins.def"
};
#undef TESSERA_TEST
#undef TESSERA_FUNCTION
#define TESSERA_TEST(name, function, parameters)
#define TESSERA_FUNCTION(name, function, parameters) Function{name, parameters, function},
constexpr std::array kFunctions{
#include "tessera/text/template/builtins.def"
};
#undef TESSERA_FUNCTION
#undef TESSERA_METHOD
#undef TESSERA_FORBIDDEN
#define TESSERA_FUNCTION(name, function, parameters)
#define TESSERA_METHOD(kind, name, function, parameters) MethodRow{Kind::kind, {name, parameters, function}},
#define TESSERA_FORBIDDEN(kind, name) MethodRow{Kind::kind, {name, "", nullptr}},
constexpr std::array kMethods{
#include "tessera/text/template/builtins.def"
};
#undef TESSERA_FILTER
#undef TESSERA_TEST
#undef TESSERA_FUNCTION
#undef TESSERA_METHOD
#undef TESSERA_FORBIDDEN

template <class Row, size_t kN>
const Row* find_row(const std::array<Row, kN>& rows, std::string_view name) {
  const auto row = std::ranges::find(rows, name, &Row::name);
  return row == rows.end() ? nullptr : &*row;
}

// Index of a name in "a b c", or the number of names.
size_t find_parameter(std::string_view parameters, std::string_view name) {
  size_t i = 0;
  while (!parameters.empty()) {
    const size_t n = std::min(parameters.find(' '), parameters.size());
    if (parameters.substr(0, n) == name) return i;
    parameters.remove_prefix(std::min(n + 1, parameters.size()));
    ++i;
  }
  return i;
}

std::unexpected<Error> wrong_kind(const Value& value, std::string_view wanted) {
  if (value.is_undefined()) return undefined_error(value);
  return fail(ErrorCode::invalid_argument, "argument is {}, want {}", to_string(value.kind()), wanted);
}

}  // namespace

std::span<const Filter> filters() { return kFilters; }
std::span<const Test> tests() { return kTests; }
std::span<const Function> functions() { return kFunctions; }
const Filter* find_filter(std::string_view name) { return find_row(kFilters, name); }
const Test* find_test(std::string_view name) { return find_row(kTests, name); }
const Function* find_function(std::string_view name) { return find_row(kFunctions, name); }

const Filter* find_method(Kind kind, std::string_view name) {
  const auto row =
      std::ranges::find_if(kMethods, [&](const MethodRow& r) { return r.kind == kind && r.method.name == name; });
  return row == kMethods.end() ? nullptr : &row->method;
}

bool is_method_name(std::string_view name) {
  return std::ranges::any_of(kMethods, [&](const MethodRow& row) { return row.method.name == name; });
}

bool Bound::truth(size_t i, bool otherwise) const { return has(i) ? is_true(values_[i]) : otherwise; }

Result<int64_t> Bound::integer(size_t i, int64_t otherwise) const {
  if (!has(i)) return otherwise;
  if (!values_[i].is_integer()) return wrong_kind(values_[i], "integer");
  return values_[i].as_integer();
}

Result<MarkedView> Bound::text(size_t i, std::string_view otherwise) const {
  if (!has(i)) return MarkedView{otherwise};
  if (!values_[i].is_text()) return wrong_kind(values_[i], "text");
  return values_[i].as_text();
}

Result<Bound> bind(std::string_view parameters, const Arguments& arguments) {
  Bound bound;
  if (parameters == "*") return bound;
  const size_t n_parameters = find_parameter(parameters, "\n");  // no parameter has this name
  if (arguments.positional.size() > n_parameters)
    return fail(ErrorCode::invalid_argument, "takes {} arguments, got {}", n_parameters, arguments.positional.size());
  std::ranges::copy(arguments.positional, bound.values_.begin());
  for (const Arguments::Keyword& keyword : arguments.keywords) {
    const size_t i = find_parameter(parameters, keyword.name);
    if (i == n_parameters) return fail(ErrorCode::invalid_argument, "no parameter {}", quote_text(keyword.name));
    if (bound.has(i)) return fail(ErrorCode::invalid_argument, "second value for argument '{}'", keyword.name);
    bound.values_[i] = keyword.value;
  }
  return bound;
}

Result<Value> call_filter(Runtime& runtime, const Filter& filter, const Value& value, const Arguments& arguments) {
  TESSERA_TRY(runtime.enter_call());
  auto result = [&]() -> Result<Value> {
    TESSERA_ASSIGN(const Bound bound, bind(filter.parameters, arguments));
    return filter.call(runtime, value, bound, arguments);
  }();
  runtime.leave_call();
  if (!result && result.error().code() == ErrorCode::invalid_argument) return forward_error(result, filter.name);
  return result;
}

Result<bool> call_test(Runtime& runtime, const Test& test, const Value& value, const Arguments& arguments) {
  auto result = [&]() -> Result<bool> {
    TESSERA_ASSIGN(const Bound bound, bind(test.parameters, arguments));
    return test.call(runtime, value, bound);
  }();
  if (!result && result.error().code() == ErrorCode::invalid_argument) return forward_error(result, test.name);
  return result;
}

}  // namespace tessera::text::jinja
