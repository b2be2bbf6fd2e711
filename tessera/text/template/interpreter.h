// Runs a program. The interpreter has stacks of its own for values, calls, loops and captured output, so nothing in a
// template makes it recurse.
#pragma once

#include <vector>

#include "tessera/text/template/builtins.h"
#include "tessera/text/template/program.h"
#include "tessera/text/template/runtime.h"
#include "tessera/text/template/template.h"

namespace tessera::text::jinja {

std::expected<Rendered, TemplateError> run_program(const Program& program, Heap& heap,
                                                   std::span<const Variable> variables, const std::tm& now);

}  // namespace tessera::text::jinja
