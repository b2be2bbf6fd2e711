// Arguments of calls: from the stack of the interpreter to the parameters of macros.
#pragma once

#include <span>
#include <vector>

#include "tessera/text/template/builtins.h"
#include "tessera/text/template/program.h"

namespace tessera::text::jinja {

/// The arguments of a call whose values lie on the stack. *list and **dict are spread out. Errors: invalid_argument;
/// limit.
Result<Arguments> collect_arguments(Runtime& runtime, const CallShape& shape, std::span<const Value> values);

struct MacroArguments {
  std::vector<Value> values;  // by parameter; missing if the default of the parameter is wanted
  Value caller{};             // undefined outside of a call block
  Value varargs{};            // a tuple
  Value kwargs{};             // a dict
};

/// Assigns arguments to the parameters of a macro. A macro accepts more arguments only if it reads varargs, kwargs or
/// caller. Errors: invalid_argument; limit.
Result<MacroArguments> bind_macro(Runtime& runtime, const Program& program, const MacroCode& code,
                                  const Arguments& arguments);

}  // namespace tessera::text::jinja
