// Grammars: what a text must be, compiled from GBNF, a regular expression or a JSON Schema.
#pragma once

#include <expected>
#include <memory>
#include <string_view>

#include "tessera/base/function_ref.h"
#include "tessera/text/grammar/gbnf.h"
#include "tessera/text/grammar/grammar_error.h"
#include "tessera/text/grammar/json_spelling.h"
#include "tessera/text/grammar/lexeme_states.h"

namespace tessera::text::grammar {

/// A grammar that is being made.
struct GrammarParts {
  ExpressionArena& expressions;
  LexemeStates& lexemes;
  Rules& rules;
};

class Grammar;
using GrammarResult = std::expected<std::shared_ptr<const Grammar>, GrammarError>;

/// A compiled grammar. It does not change, so any number of matchers share it.
class Grammar {
 public:
  static constexpr size_t kMaxExpressions = size_t{1} << 20;
  static constexpr size_t kMaxLexemeStates = 20'000;
  static constexpr uint64_t kMaxCompileSteps = 16'000'000;  // about a second

  /// find_token: for tokens by text; without it, a source that has some is an error.
  static GrammarResult from_gbnf(std::string_view source, const FindToken& find_token = {});
  /// A regular expression of ECMA-262 that the whole text must match.
  static GrammarResult from_regex(std::string_view pattern);

  /// The JSON texts of the values that a schema allows.
  static GrammarResult from_json_schema(std::string_view schema, const JsonOutput& output = {},
                                        bool enforces_formats = true);

  /// A grammar whose start rule build() makes, besides the rules of another grammar if one is given. Errors: those of
  /// build(); the start rule has no text, or a rule begins with itself.
  static GrammarResult from_rules(const Grammar* inner,
                                  FunctionRef<std::expected<RuleId, GrammarError>(GrammarParts&)> build);

  const Rules& rules() const { return rules_; }
  const ExpressionArena& expressions() const { return expressions_; }
  /// States that compiling has found.
  const LexemeStates& lexemes() const { return lexemes_; }

 private:
  Grammar() : expressions_(kMaxExpressions), lexemes_(expressions_, kMaxLexemeStates) {
    expressions_.limit_steps(kMaxCompileSteps);
  }
  explicit Grammar(const Grammar& other)
      : expressions_(other.expressions_),
        lexemes_(expressions_, other.lexemes_, kMaxLexemeStates),
        rules_(other.rules_) {
    expressions_.limit_steps(kMaxCompileSteps);
  }
  static GrammarResult finish(std::shared_ptr<Grammar> grammar);

  ExpressionArena expressions_;
  LexemeStates lexemes_;
  Rules rules_;
};

}  // namespace tessera::text::grammar
