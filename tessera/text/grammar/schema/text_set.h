// A finite set of texts as one expression: texts that begin alike share their beginning.
#pragma once

#include <span>
#include <vector>

#include "tessera/text/grammar/expression.h"

namespace tessera::text::grammar {

class TextSet {
 public:
  explicit TextSet(ExpressionArena& arena) : arena_(&arena) {}

  /// Adds a text as the expressions of its characters. Equal characters have equal expressions. The tag is put at its
  /// end, unless it is kEmpty.
  void add(std::vector<Expression> units, Expression tag = ExpressionArena::kEmpty);

  bool empty() const { return texts_.empty(); }
  Expression expression();

 private:
  struct Text {
    std::vector<Expression> units;
    Expression tag;
    auto operator<=>(const Text&) const = default;
  };
  ExpressionArena* arena_;
  std::vector<Text> texts_;
};

}  // namespace tessera::text::grammar
