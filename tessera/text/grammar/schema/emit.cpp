#include "tessera/text/grammar/schema/emit.h"

#include <algorithm>

#include "tessera/base/index.h"

namespace tessera::text::grammar {
SchemaEmitter::SchemaEmitter(NormalForms& forms, ShapeAlgebra& algebra, Rules& rules, const ValueSyntax& syntax,
                             const FindToken& find_control)
    : forms_(&forms),
      algebra_(&algebra),
      arena_(&algebra.arena()),
      rules_(&rules),
      syntax_(&syntax),
      find_control_(&find_control),
      string_texts_(ExpressionArena::kAnything) {
  if (!syntax.has_escapes) string_texts_ = text_before(*arena_, std::string(syntax.quote));
  if (!syntax.excluded.empty())
    string_texts_ = arena_->all_of(string_texts_, arena_->complement(texts_with(*arena_, {{syntax.excluded}})));
}

GrammarError SchemaEmitter::refused(std::string keyword, std::string message) {
  return {.message = std::move(message), .pointer = "", .keyword = std::move(keyword), .is_of_schema = true};
}

RuleId SchemaEmitter::rule_of(Term term, Part part) {
  const auto known = ids_.find({term, part});
  if (known != ids_.end()) return known->second;
  const RuleId rule = rules_->add_rule("value");
  ids_.emplace(std::pair(term, part), rule);
  open_.emplace_back(term, part);
  return rule;
}

std::expected<RuleId, GrammarError> SchemaEmitter::emit(Term term) {
  const RuleId root = rule_of(term);
  if (const Done done = emit_open(); !done) return std::unexpected(done.error());
  return root;
}

SchemaEmitter::Done SchemaEmitter::emit_open() {
  while (!open_.empty()) {
    const auto [term, part] = open_.back();
    open_.pop_back();
    if (!arena_->has_steps()) return std::unexpected(refused("", "more work than the limit"));
    if (const auto done = emit_rule(term, part, ids_.at({term, part})); !done) return done;
    if (rules_->n_states() > kMaxStates || rules_->n_edges() > kMaxEdges)
      return std::unexpected(refused("", "more states than the limit"));
  }
  return {};
}

std::expected<RuleId, GrammarError> SchemaEmitter::emit_members(Term term, const MemberSyntax& syntax) {
  return emit_objects(term, syntax, nullptr);
}

std::expected<RuleId, GrammarError> SchemaEmitter::emit_members(Term term, const TaggedMembers& syntax,
                                                                SchemaEmitter& json) {
  json_ = &json;
  const auto rule = emit_objects(term, syntax_->members, &syntax);
  if (!rule) return rule;
  if (const Done done = json.emit_open(); !done) return std::unexpected(done.error());
  return rule;
}

std::expected<RuleId, GrammarError> SchemaEmitter::emit_objects(Term term, const MemberSyntax& syntax,
                                                                const TaggedMembers* tagged) {
  const auto shapes = forms_->of(term);
  if (!shapes) return std::unexpected(shapes.error());
  const RuleId root = rules_->add_rule("arguments");
  for (const Shape& shape : **shapes) {
    if (shape.type != ShapeType::object) continue;
    const RuleId inner = rules_->add_rule("object");
    if (const Done done = emit_object(*shape.object, inner, syntax, tagged); !done)
      return std::unexpected(forms_->at(term, done.error()));
    rules_->add_edge(rules_->rule(root).start,
                     {.kind = Edge::Kind::call, .value = inner, .target = rules_->rule(root).end});
  }
  if (const Done done = emit_open(); !done) return std::unexpected(done.error());
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
    if (shape.array || shape.object || (shape.type == ShapeType::string && has_control_quotes()))
      return std::unexpected(refused("uniqueItems", "items that are arrays or objects are not supported"));
    texts.push_back(text_of(shape));
  }
  return arena_->any_of(std::move(texts));
}

// The texts of a string or of names, without those that the syntax excludes.
Expression SchemaEmitter::string_text(Expression text) {
  return string_texts_ == ExpressionArena::kAnything ? text : arena_->all_of(text, string_texts_);
}

bool SchemaEmitter::has_control_quotes() const {
  return *find_control_ && (*find_control_)(syntax_->quote).has_value();
}

Expression SchemaEmitter::text_of(const Shape& shape) {
  switch (shape.type) {
    case ShapeType::null:
      return arena_->literal(syntax_->null_word);
    case ShapeType::false_:
      return arena_->literal(syntax_->false_word);
    case ShapeType::true_:
      return arena_->literal(syntax_->true_word);
    case ShapeType::string:
      return arena_->concat(
          std::vector{arena_->literal(syntax_->quote), string_text(shape.text), arena_->literal(syntax_->quote)});
    case ShapeType::number: {
      const NumberLanguage& numbers = algebra_->numbers();
      Expression text = shape.text;
      for (const Factor& factor : shape.factors) {
        const Expression multiples = *numbers.multiples(factor.value);
        text = arena_->all_of(
            text, factor.is_excluded ? arena_->all_of(numbers.decimals(), arena_->complement(multiples)) : multiples);
      }
      if (shape.is_integer) text = algebra_->integers_of(text);
      if (shape.written == ExpressionArena::kAnything) return text;
      const Expression written = arena_->all_of(text, shape.written);
      return algebra_->is_empty(written) ? text : written;
    }
    default:
      return ExpressionArena::kNothing;
  }
}

SchemaEmitter::Done SchemaEmitter::emit_rule(Term term, Part part, RuleId rule) {
  const auto shapes = forms_->of(term);
  if (!shapes) return std::unexpected(shapes.error());
  const RuleState start = rules_->rule(rule).start, end = rules_->rule(rule).end;
  std::vector<Expression> texts;
  for (const Shape& shape : **shapes) {
    if (shape.type == ShapeType::string && part == Part::without_strings) continue;
    if (shape.type == ShapeType::string && has_control_quotes()) {
      RuleBuilder builder(*arena_, *rules_, rule, *find_control_);
      const RuleState inside = builder.after_mark(start, syntax_->quote);
      const RuleState after = builder.after_lexeme(inside, string_text(shape.text));
      builder.add_step(builder.after_mark(after, syntax_->quote), end);
      continue;
    }
    if (shape.type != ShapeType::array && shape.type != ShapeType::object) {
      texts.push_back(text_of(shape));
      continue;
    }
    const RuleId inner = rules_->add_rule(shape.type == ShapeType::array ? "array" : "object");
    const Done done =
        shape.array ? emit_array(*shape.array, inner) : emit_object(*shape.object, inner, syntax_->members, nullptr);
    if (!done) return std::unexpected(forms_->at(term, done.error()));
    rules_->add_edge(start, {.kind = Edge::Kind::call, .value = inner, .target = end});
  }
  const Expression text = arena_->any_of(std::move(texts));
  if (!algebra_->is_empty(text)) add_lexeme(start, text, end);
  return {};
}

// A bracket, comma or colon with the space around it.
Expression SchemaEmitter::symbol(std::string_view text) {
  const auto known = symbols_.find(text);
  if (known != symbols_.end()) return known->second;
  return symbols_.emplace(text, make_symbol(text)).first->second;
}

Expression SchemaEmitter::make_symbol(std::string_view text) {
  const Expression inside = algebra_->spelling().space(SpacePlace::inside);
  const Expression after = algebra_->spelling().space(SpacePlace::separator);
  const Expression literal = arena_->literal(text);
  if (text == "[" || text == "{" || text == "(") return arena_->concat(literal, inside);
  if (text == "]" || text == "}" || text == ")") return arena_->concat(inside, literal);
  if (text == "," || text == ":") return arena_->concat(std::vector{inside, literal, after});
  return literal;
}

}  // namespace tessera::text::grammar
