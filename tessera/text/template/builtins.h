// The filters, tests, functions and methods of the template language. Each is a row of a table with its name, its
// parameters and its function.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/template/runtime.h"
#include "tessera/text/template/value.h"

namespace tessera::text::jinja {

/// The arguments of a call.
struct Arguments {
  struct Keyword {
    std::string_view name;
    Value value;
  };
  std::vector<Value> positional;
  std::vector<Keyword> keywords;
};

/// Arguments in the order of the parameters; missing where none was passed.
class Bound {
 public:
  static constexpr size_t kMaxParameters = 4;

  const Value& operator[](size_t i) const { return values_[i]; }
  bool has(size_t i) const { return !values_[i].is_missing(); }
  /// True if an argument other than none was passed.
  bool has_value(size_t i) const { return has(i) && !values_[i].is_none(); }
  bool truth(size_t i, bool otherwise) const;
  /// The errors of these are invalid_argument and not_found (an undefined argument).
  Result<int64_t> integer(size_t i, int64_t otherwise) const;
  Result<MarkedView> text(size_t i, std::string_view otherwise) const;

 private:
  friend Result<Bound> bind(std::string_view parameters, const Arguments& arguments);
  std::array<Value, kMaxParameters> values_{};
};

/// Assigns arguments to parameters: names with a blank between them, or "*" for any arguments, which are not assigned.
/// Errors: invalid_argument.
Result<Bound> bind(std::string_view parameters, const Arguments& arguments);

/// The function of a filter or a method. `bound` has the arguments of named parameters.
using FilterFunction = Result<Value>(Runtime& runtime, const Value& value, const Bound& bound,
                                     const Arguments& arguments);
using TestFunction = Result<bool>(Runtime& runtime, const Value& value, const Bound& bound);
using GlobalFunction = Result<Value>(Runtime& runtime, const Bound& bound, const Arguments& arguments);

/// A filter `value | name(arguments)`, or a method `value.name(arguments)`. A method without a function is forbidden.
struct Filter {
  std::string_view name;
  std::string_view parameters;  // for bind()
  FilterFunction* call;
};

struct Test {
  std::string_view name;
  std::string_view parameters;
  TestFunction* call;
};

struct Function {
  std::string_view name;
  std::string_view parameters;
  GlobalFunction* call;
};

struct MethodRow {
  Kind kind;
  Filter method;
};

#define TESSERA_FILTER(name, function, parameters) FilterFunction function;
#define TESSERA_TEST(name, function, parameters) TestFunction function;
#define TESSERA_FUNCTION(name, function, parameters) GlobalFunction function;
#define TESSERA_METHOD(kind, name, function, parameters) FilterFunction function;
#define TESSERA_FORBIDDEN(kind, name)
#include "tessera/text/template/builtins.def"
#undef TESSERA_FILTER
#undef TESSERA_TEST
#undef TESSERA_FUNCTION
#undef TESSERA_METHOD
#undef TESSERA_FORBIDDEN

std::span<const Filter> filters();
std::span<const Test> tests();
std::span<const Function> functions();

/// Returns the row of a name, or null.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
const Function* find_function(std::string_view name);
const Filter* find_method(Kind kind, std::string_view name);
/// True if a kind has a method of this name.
bool is_method_name(std::string_view name);

/// A method of an object, before its call.
struct Method {
  const Filter* row;
  Value self;
};

Result<Value> call_filter(Runtime& runtime, const Filter& filter, const Value& value, const Arguments& arguments);
Result<bool> call_test(Runtime& runtime, const Test& test, const Value& value, const Arguments& arguments);

}  // namespace tessera::text::jinja
