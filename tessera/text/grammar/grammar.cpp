#include "tessera/text/grammar/grammar.h"

#include <fmt/format.h>

#include "tessera/text/grammar/regex_language.h"
#include "tessera/text/grammar/schema/schema_rules.h"
#include "tessera/text/grammar/utf8_expression.h"
#include "tessera/text/utf8.h"

namespace tessera::text::grammar {
namespace {

constexpr std::string_view kOverLimits = "the grammar needs more states or more time than the limits allow";

}  // namespace

std::string GrammarError::text() const {
  if (is_of_schema) {
    const std::string of_schema = fmt::format("json_schema#{}: {}", pointer, message);
    return tool ? fmt::format("tool {}: {}", quote_text(*tool), of_schema) : of_schema;
  }
  if (tool) return fmt::format("tool {}: {}", quote_text(*tool), message);
  return fmt::format("grammar: {}:{}: {}", line, column, message);
}

GrammarResult Grammar::finish(std::shared_ptr<Grammar> grammar) {
  if (grammar->expressions_.overflowed()) return std::unexpected(GrammarError{.message = std::string(kOverLimits)});
  return grammar;
}

GrammarResult Grammar::from_gbnf(std::string_view source, const FindToken& find_token) {
  std::shared_ptr<Grammar> grammar(new Grammar);
  const auto done = read_gbnf(source, find_token, grammar->expressions_, grammar->rules_);
  if (!done) return std::unexpected(done.error());
  return finish(std::move(grammar));
}

GrammarResult Grammar::from_regex(std::string_view pattern) {
  const auto tree = RegexTree::parse(pattern);
  if (!tree) return std::unexpected(GrammarError{.message = tree.error().message, .column = tree.error().column});
  std::shared_ptr<Grammar> grammar(new Grammar);
  ExpressionArena& arena = grammar->expressions_;
  const auto spelling = [&](const CodePointSet& set) { return utf8_of(arena, set); };
  const Expression language = language_of(*tree, MatchPlace::whole, spelling, arena);
  Rules& rules = grammar->rules_;
  const RuleId root = rules.add_rule("root");
  rules.set_start(root);
  rules.add_edge(rules.rule(root).start,
                 {.kind = Edge::Kind::lexeme, .value = language, .target = rules.rule(root).end});
  LexemeStates& states = grammar->lexemes_;
  const bool is_empty = states.state_of(language) == LexemeStates::kDead;
  if (states.overflowed()) return std::unexpected(GrammarError{.message = std::string(kOverLimits)});
  if (is_empty) return std::unexpected(GrammarError{.message = "no text matches"});
  const auto done = rules.finish(arena);
  if (!done) return std::unexpected(GrammarError{.message = done.error().message});
  return finish(std::move(grammar));
}

GrammarResult Grammar::from_json_schema(std::string_view schema, const JsonOutput& output, bool enforces_formats) {
  auto source = SchemaSource::parse(schema);
  if (!source) return std::unexpected(source.error());
  std::shared_ptr<Grammar> grammar(new Grammar);
  ExpressionArena& arena = grammar->expressions_;
  grammar->rules_.set_writing(output);
  SchemaRules rules(*source, {arena, grammar->lexemes_, grammar->rules_}, JsonSpelling(arena, output),
                    {.enforces_formats = enforces_formats});
  const auto root = rules.emitter.emit(source->root());
  const auto schema_error = [](std::string_view message) {
    return std::unexpected(GrammarError{.message = std::string(message), .is_of_schema = true});
  };
  if (grammar->lexemes_.overflowed()) return schema_error(kOverLimits);
  if (!root) return std::unexpected(root.error());
  grammar->rules_.set_start(*root);
  const auto done = grammar->rules_.finish(arena, Rules::BarrenRules::are_left_out);
  if (!done) {
    const bool has_value = grammar->rules_.has_text(grammar->rules_.start());
    return schema_error(has_value ? done.error().message : "no value satisfies it");
  }
  return finish(std::move(grammar));
}

GrammarResult Grammar::from_rules(const Grammar* inner,
                                  FunctionRef<std::expected<RuleId, GrammarError>(GrammarParts&)> build) {
  std::shared_ptr<Grammar> grammar(inner == nullptr ? new Grammar : new Grammar(*inner));
  Rules& rules = grammar->rules_;
  grammar->expressions_.limit_steps(kMaxCompileSteps);
  GrammarParts parts{grammar->expressions_, grammar->lexemes_, rules};
  const auto start = build(parts);
  if (!start) return std::unexpected(start.error());
  if (grammar->lexemes_.overflowed()) return std::unexpected(GrammarError{.message = std::string(kOverLimits)});
  rules.set_start(*start);
  const auto done = rules.finish(grammar->expressions_, Rules::BarrenRules::are_left_out);
  if (!done) return std::unexpected(GrammarError{.message = done.error().message});
  return finish(std::move(grammar));
}

}  // namespace tessera::text::grammar
