#include "tessera/text/template/calls.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/template/operators.h"

namespace tessera::text::jinja {
namespace {

Result<> spread_dict(Runtime& runtime, const Value& value, Arguments& arguments) {
  if (!value.is(Kind::dict))
    return fail(ErrorCode::invalid_argument, "argument behind '**' is {}, want dict", to_string(value.kind()));
  TESSERA_TRY(runtime.spend(value.as_dict().entries.size()));
  for (const Dict::Entry& entry : value.as_dict().entries) {
    if (!entry.key.is_text()) return fail(ErrorCode::invalid_argument, "name of an argument is not a text");
    arguments.keywords.push_back({entry.key.bytes(), entry.value});
  }
  return {};
}

}  // namespace

Result<Arguments> collect_arguments(Runtime& runtime, const CallShape& shape, std::span<const Value> values) {
  using Passing = CallShape::Passing;
  Arguments arguments;
  for (size_t i = 0; i < values.size(); ++i) {
    switch (shape.arguments[i].passing) {
      case Passing::positional:
        arguments.positional.push_back(values[i]);
        break;
      case Passing::keyword:
        arguments.keywords.push_back({shape.arguments[i].keyword.bytes(), values[i]});
        break;
      case Passing::star: {
        TESSERA_ASSIGN(const List* list, elements(runtime, values[i]));
        TESSERA_TRY(runtime.spend(list->items.size()));
        arguments.positional.insert(arguments.positional.end(), list->items.begin(), list->items.end());
        break;
      }
      case Passing::double_star:
        TESSERA_TRY(spread_dict(runtime, values[i], arguments));
    }
  }
  return arguments;
}

Result<MacroArguments> bind_macro(Runtime& runtime, const Program& program, const MacroCode& code,
                                  const Arguments& arguments) {
  const size_t n_parameters = code.parameters.size();
  TESSERA_TRY(runtime.spend(n_parameters * (arguments.keywords.size() + 1) / 8));
  const size_t n_positional = std::min(n_parameters, arguments.positional.size());
  const size_t n_extra = arguments.positional.size() - n_positional;
  if (n_extra > 0 && !code.uses_varargs)
    return fail(ErrorCode::invalid_argument, "macro '{}' takes {} arguments, got {}", code.name.bytes(), n_parameters,
                arguments.positional.size());
  const auto first_extra = arguments.positional.begin() + static_cast<ptrdiff_t>(n_positional);
  TESSERA_ASSIGN(List * extra, runtime.create_list(n_extra));
  extra->items.assign(first_extra, arguments.positional.end());
  TESSERA_ASSIGN(Dict * rest, runtime.create_dict(code.uses_kwargs ? arguments.keywords.size() : 0));
  MacroArguments bound{std::vector<Value>(n_parameters), Value::undefined(), Value::tuple(extra), Value::dict(rest)};
  std::copy(arguments.positional.begin(), first_extra, bound.values.begin());
  for (const Arguments::Keyword& keyword : arguments.keywords) {
    const auto parameter = std::ranges::find_if(
        code.parameters, [&](uint32_t variable) { return program.variables[variable].bytes() == keyword.name; });
    if (parameter != code.parameters.end()) {
      Value& value = bound.values[to_size(parameter - code.parameters.begin())];
      if (!value.is_missing()) return fail(ErrorCode::invalid_argument, "second value for argument '{}'", keyword.name);
      value = keyword.value;
    } else if (keyword.name == "caller" && code.uses_caller) {
      bound.caller = keyword.value;
    } else if (code.uses_kwargs) {
      rest->set(runtime.heap().text(keyword.name), keyword.value);
    } else {
      return fail(ErrorCode::invalid_argument, "macro '{}' has no parameter '{}'", code.name.bytes(), keyword.name);
    }
  }
  for (size_t i = 0; i < n_parameters; ++i) {
    if (bound.values[i].is_missing() && !code.has_default[i])
      bound.values[i] = Value::undefined(&program.variables[code.parameters[i]].as_text());
  }
  return bound;
}

}  // namespace tessera::text::jinja
