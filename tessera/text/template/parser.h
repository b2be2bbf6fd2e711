// Parses the source of a template into a program. Open statements are on a stack, so nesting costs no recursion.
#pragma once

#include <memory>
#include <string>

#include "tessera/text/template/program.h"
#include "tessera/text/template/template.h"

namespace tessera::text::jinja {

/// Parses a source that is valid UTF-8 with '\n' as its only line break.
std::expected<std::unique_ptr<const Program>, TemplateError> parse_program(std::string source);

}  // namespace tessera::text::jinja
