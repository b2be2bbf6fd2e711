// Expressions for the UTF-8 text of code points.
#pragma once

#include "tessera/text/code_point_set.h"
#include "tessera/text/grammar/expression.h"

namespace tessera::text::grammar {

/// The UTF-8 texts of the code points of a set. Surrogates have no UTF-8 text.
Expression utf8_of(ExpressionArena& arena, const CodePointSet& set);

/// All code points that have UTF-8 texts.
CodePointSet all_code_points();

}  // namespace tessera::text::grammar
