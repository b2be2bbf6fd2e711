#include "tessera/text/grammar/schema/emit.h"

#include <algorithm>

#include "tessera/base/index.h"

namespace tessera::text::grammar {
namespace {

GrammarError refused(std::string keyword, std::string message) {
  return {.message = std::move(message), .pointer = "", .keyword = std::move(keyword), .is_of_schema = true};
}

}  // namespace

SchemaEmitter::SchemaEmitter(NormalForms& forms, ShapeAlgebra& algebra, Rules& rules)
    : forms_(&forms), algebra_(&algebra), arena_(&algebra.arena()), rules_(&rules) {}

RuleId SchemaEmitter::rule_of(Term term) {
  const auto known = ids_.find(term);
  if (known != ids_.end()) return known->second;
  const RuleId rule = rules_->add_rule("value");
  ids_.emplace(term, rule);
  open_.push_back(term);
  return rule;
}

std::expected<RuleId, GrammarError> SchemaEmitter::emit(Term term) {
  const RuleId root = rule_of(term);
  while (!open_.empty()) {
    const Term next = open_.back();
    open_.pop_back();
    if (!arena_->has_steps()) return std::unexpected(refused("", "more work than the limit"));
    if (const auto done = emit_rule(next, ids_.at(next)); !done) return std::unexpected(done.error());
    if (rules_->n_states() > kMaxStates) return std::unexpected(refused("", "more states than the limit"));
  }
  return root;
}

void SchemaEmitter::add_lexeme(RuleState from, Expression lexeme, RuleState to, uint32_t adds, bool needs_min) {
  rules_->add_edge(from,
                   {.kind = Edge::Kind::lexeme, .value = lexeme, .target = to, .adds = adds, .needs_min = needs_min});
}

void SchemaEmitter::add_value(RuleState from, Term term, RuleState to, uint32_t adds) {
  rules_->add_edge(from, {.kind = Edge::Kind::call, .value = rule_of(term), .target = to, .adds = adds});
}

std::expected<bool, GrammarError> SchemaEmitter::is_possible(Term term) {
  const auto shapes = forms_->of(term);
  if (!shapes) return std::unexpected(shapes.error());
  return !(*shapes)->empty();
}

// The texts of a term whose values are no containers.
std::expected<Expression, GrammarError> SchemaEmitter::scalar_texts(Term term) {
  const auto shapes = forms_->of(term);
  if (!shapes) return std::unexpected(shapes.error());
  std::vector<Expression> texts;
  for (const Shape& shape : **shapes) {
    if (shape.array || shape.object)
      return std::unexpected(refused("uniqueItems", "items that are arrays or objects are not supported"));
    texts.push_back(text_of(shape));
  }
  return arena_->any_of(std::move(texts));
}

Expression SchemaEmitter::text_of(const Shape& shape) {
  switch (shape.type) {
    case ShapeType::null:
      return arena_->literal("null");
    case ShapeType::false_:
      return arena_->literal("false");
    case ShapeType::true_:
      return arena_->literal("true");
    case ShapeType::string:
      return algebra_->spelling().quoted(shape.text);
    case ShapeType::number: {
      const NumberLanguage& numbers = algebra_->numbers();
      Expression text = shape.text;
      for (const Factor& factor : shape.factors) {
        const Expression multiples = *numbers.multiples(factor.value);
        text = arena_->all_of(
            text, factor.is_excluded ? arena_->all_of(numbers.decimals(), arena_->complement(multiples)) : multiples);
      }
      if (shape.is_integer) text = arena_->all_of(text, numbers.written_integers());
      const Expression written = arena_->all_of(text, shape.written);
      return algebra_->is_empty(written) ? text : written;
    }
    default:
      return ExpressionArena::kNothing;
  }
}

SchemaEmitter::Done SchemaEmitter::emit_rule(Term term, RuleId rule) {
  const auto shapes = forms_->of(term);
  if (!shapes) return std::unexpected(shapes.error());
  const RuleState start = rules_->rule(rule).start, end = rules_->rule(rule).end;
  std::vector<Expression> texts;
  for (const Shape& shape : **shapes) {
    if (shape.type != ShapeType::array && shape.type != ShapeType::object) {
      texts.push_back(text_of(shape));
      continue;
    }
    const RuleId inner = rules_->add_rule(shape.type == ShapeType::array ? "array" : "object");
    const Done done = shape.array ? emit_array(*shape.array, inner) : emit_object(*shape.object, inner);
    if (!done) return std::unexpected(forms_->at(term, done.error()));
    rules_->add_edge(start, {.kind = Edge::Kind::call, .value = inner, .target = end});
  }
  const Expression text = arena_->any_of(std::move(texts));
  if (!algebra_->is_empty(text)) add_lexeme(start, text, end);
  return {};
}

// A bracket or comma with the space around it.
Expression SchemaEmitter::symbol(std::string_view text) {
  const Expression inside = algebra_->spelling().space(SpacePlace::inside);
  const Expression after = algebra_->spelling().space(SpacePlace::separator);
  const Expression literal = arena_->literal(text);
  if (text == "[" || text == "{") return arena_->concat(literal, inside);
  if (text == "]" || text == "}") return arena_->concat(inside, literal);
  return arena_->concat(std::vector{inside, literal, after});
}

}  // namespace tessera::text::grammar
