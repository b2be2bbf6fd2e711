// An error of a grammar's source.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace tessera::text::grammar {

struct GrammarError {
  std::string message{};
  // Of GBNF and of regular expressions, in code points from 1.
  size_t line = 1, column = 1;
  // Of a JSON Schema.
  std::string pointer{};  // JSON pointer of the keyword's schema, with the keyword: "/properties/a/pattern"
  std::string keyword{};
  bool is_of_schema = false;
  std::optional<std::string> tool{};  // the name of the tool, if a tool's schema or name is the cause

  /// "grammar: LINE:COLUMN: MESSAGE", or "json_schema#POINTER: MESSAGE", after "tool NAME: " for a tool.
  std::string text() const;
};

}  // namespace tessera::text::grammar
