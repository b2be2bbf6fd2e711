// The language of a regular expression: the texts in which it has a match.
#pragma once

#include <expected>
#include <functional>

#include "tessera/text/code_point_set.h"
#include "tessera/text/grammar/expression.h"
#include "tessera/text/grammar/regex_tree.h"

namespace tessera::text::grammar {

/// The texts of one code point of a set, as a language writes them: UTF-8, or inside a JSON string. Texts of different
/// code points must not begin one another.
using Spelling = std::function<Expression(const CodePointSet&)>;

enum class MatchPlace : uint8_t {
  anywhere,  // as `pattern` of JSON Schema
  whole,     // from the start of the text to its end
};

/// Assertions become intersections and complements, so the size of the arena is the limit of what they cost.
Expression language_of(const RegexTree& tree, MatchPlace place, const Spelling& spelling, ExpressionArena& arena);

}  // namespace tessera::text::grammar
