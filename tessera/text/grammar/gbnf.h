// Reads grammars in GBNF, the notation of llama.cpp: rules with alternatives, literals, character classes, repetitions,
// groups and tokens. docs/grammars.md has the notation.
#pragma once

#include <expected>
#include <string_view>

#include "tessera/text/grammar/expression.h"
#include "tessera/text/grammar/grammar_error.h"
#include "tessera/text/grammar/rules.h"

namespace tessera::text::grammar {

/// Adds the rules of a source, with the start rule "root". Rules whose texts are regular become lexemes of others.
/// Errors have a line and a column.
std::expected<void, GrammarError> read_gbnf(std::string_view source, const FindToken& find_token,
                                            ExpressionArena& arena, Rules& rules);

}  // namespace tessera::text::grammar
