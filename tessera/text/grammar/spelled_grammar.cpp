#include "tessera/text/grammar/spelled_grammar.h"

#include <unordered_map>

#include "tessera/text/grammar/utf8_expression.h"

namespace tessera::text::grammar {

GrammarResult spelled_by(const MaskVocab& vocab, std::shared_ptr<const Grammar> grammar) {
  if (!vocab.characters()) return grammar;
  const auto narrow = [&](GrammarParts& parts) -> std::expected<RuleId, GrammarError> {
    ExpressionArena& arena = parts.expressions;
    const Expression spelled = arena.repeat(utf8_of(arena, *vocab.characters()), 0, kUnbounded);
    const Expression others = arena.complement(spelled);
    const auto is_empty = [&](Expression e) { return parts.lexemes.state_of(e) == LexemeStates::kDead; };
    std::unordered_map<Expression, Expression> known = {{ExpressionArena::kEmpty, ExpressionArena::kEmpty}};
    parts.rules.change_lexemes(
        [&](Expression lexeme) {
          const auto [found, is_new] = known.try_emplace(lexeme, lexeme);
          if (!is_new || is_empty(arena.all_of(lexeme, others))) return found->second;
          const Expression narrowed = arena.all_of(lexeme, spelled);
          return found->second = is_empty(narrowed) ? ExpressionArena::kNothing : narrowed;
        },
        arena);
    return parts.rules.start();
  };
  GrammarResult narrowed = Grammar::from_rules(grammar.get(), narrow);
  if (!narrowed) narrowed.error().message = "with the characters of the vocabulary, " + narrowed.error().message;
  return narrowed;
}

}  // namespace tessera::text::grammar
