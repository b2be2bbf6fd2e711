// The formats of JSON Schema as languages.
#pragma once

#include <optional>
#include <string_view>

#include "tessera/text/grammar/regex_language.h"

namespace tessera::text::grammar {

/// The texts of a format, or nothing for an unknown one.
std::optional<Expression> format_language(std::string_view name, const Spelling& spelling, ExpressionArena& arena);

}  // namespace tessera::text::grammar
