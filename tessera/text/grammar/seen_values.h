// The texts of JSON values that may not come again.
#pragma once

#include <string_view>

#include "tessera/text/grammar/expression.h"
#include "tessera/text/grammar/json_spelling.h"
#include "tessera/text/grammar/rules.h"

namespace tessera::text::grammar {

class SeenValues {
 public:
  /// The arena must outlive this.
  SeenValues(ExpressionArena& arena, const JsonOutput& output) : arena_(&arena), spelling_(arena, output) {}

  /// All texts of the value that the text of a captured lexeme has. Of a name they are inside the quotes.
  Expression texts_of(std::string_view lexeme, bool is_name);

 private:
  Expression texts_of_string(std::string_view inside);

  ExpressionArena* arena_;
  JsonSpelling spelling_;
};

}  // namespace tessera::text::grammar
