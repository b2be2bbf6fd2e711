#include "tessera/text/grammar/schema/emit.h"

#include <algorithm>

#include "tessera/base/index.h"

namespace tessera::text::grammar {
namespace {

using Property = ObjectShape::Property;

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
    if (const auto done = emit_rule(next, ids_.at(next)); !done) return std::unexpected(done.error());
    if (rules_->n_states() > kMaxStates) return std::unexpected(refused("", "more states than the limit"));
  }
  return root;
}

void SchemaEmitter::add_lexeme(RuleState from, Expression lexeme, RuleState to, bool adds_one, bool needs_min) {
  rules_->add_edge(
      from, {.kind = Edge::Kind::lexeme, .value = lexeme, .target = to, .adds_one = adds_one, .needs_min = needs_min});
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
      for (const Decimal& factor : shape.factors) text = arena_->all_of(text, *numbers.multiples(factor));
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
    if (!done) return done;
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

SchemaEmitter::Done SchemaEmitter::emit_array(const ArrayShape& array, RuleId rule) {
  if (array.is_unique && array.max > 1) return std::unexpected(refused("uniqueItems", "is not supported yet"));
  if (!array.contains.empty()) return std::unexpected(refused("contains", "is not supported yet"));
  const RuleState end = rules_->rule(rule).end;
  const size_t n_prefix = std::min<size_t>(array.prefix.size(), array.max);
  const auto left = [&](uint32_t count) { return count > n_prefix ? count - static_cast<uint32_t>(n_prefix) : 0; };
  rules_->set_counts(rule, left(array.min), array.max == kUnbounded ? kUnbounded : left(array.max));
  RuleState after = rules_->add_state(rule);  // so many items
  add_lexeme(rules_->rule(rule).start, symbol("["), after);
  const auto close = [&](RuleState from, size_t n_items, bool is_loop) {
    const Expression lexeme = n_items == 0 ? arena_->literal("]") : symbol("]");
    if (is_loop || n_items >= array.min) add_lexeme(from, lexeme, end, false, is_loop);
  };
  // From after n items to the place of the next one.
  const auto next_item = [&](RuleState from, size_t n_items) {
    if (n_items == 0) return from;
    const RuleState before = rules_->add_state(rule);
    add_lexeme(from, symbol(","), before);
    return before;
  };
  for (size_t i = 0; i < n_prefix; ++i) {
    close(after, i, false);
    const RuleState before = next_item(after, i);
    after = rules_->add_state(rule);
    rules_->add_edge(before, {.kind = Edge::Kind::call, .value = rule_of(array.prefix[i]), .target = after});
  }
  close(after, n_prefix, true);
  if (array.rest == Terms::kNever || array.max <= n_prefix) return {};
  const RuleId rest = rule_of(array.rest);
  RuleState loop = after;
  const auto add_rest = [&](RuleState from) {
    rules_->add_edge(from, {.kind = Edge::Kind::call, .value = rest, .target = loop, .adds_one = true});
  };
  if (n_prefix == 0) {  // the first item has no comma
    loop = rules_->add_state(rule);
    add_rest(after);
    close(loop, 1, true);
  }
  const RuleState before = rules_->add_state(rule);
  // The comma asks for one more item, so it is open only where one more may come.
  add_lexeme(loop, symbol(","), before, true);
  rules_->add_edge(before, {.kind = Edge::Kind::call, .value = rest, .target = loop});
  return {};
}

// Members come in the order of the schema, then others. The states are places between properties, before any member
// and after one; where the number of members is bounded, also that number.
SchemaEmitter::Done SchemaEmitter::emit_object(const ObjectShape& object, RuleId rule) {
  if (!object.some.empty())
    return std::unexpected(refused("not", "a member that must break a condition is not supported yet"));
  std::vector<Property> properties;
  for (const Property& property : object.properties)
    if (property.term != Terms::kNever) properties.push_back(property);
  std::vector<Expression> listed;
  for (const Property& property : object.properties) listed.push_back(algebra_->spelling().text(property.name));
  const Expression unlisted = arena_->complement(arena_->any_of(std::move(listed)));
  std::vector<ObjectShape::Names> others;
  for (const ObjectShape::Names& names : object.others) {
    const Expression language = arena_->all_of(names.language, unlisted);
    if (names.term != Terms::kNever && !algebra_->is_empty(language)) others.push_back({language, names.term});
  }
  const size_t n = properties.size();
  // Counts matter up to the minimum, or to the maximum where there is one.
  const uint32_t n_counts = object.max != kUnbounded ? object.max : object.min;
  const bool counts_others = n == 0;  // the rule's own count
  if (!counts_others && (n + 1) * (uint64_t{n_counts} + 1) > kMaxStates / 4)
    return std::unexpected(refused("maxProperties", "too many states"));
  const RuleState end = rules_->rule(rule).end;
  const Expression colon = symbol(":");
  const auto name_lexeme = [&](Expression inside) {
    return arena_->concat(algebra_->spelling().quoted(inside), colon);
  };
  const auto add_member = [&](RuleState from, Expression name, Term term, RuleState to, bool adds_one) {
    const RuleState value = rules_->add_state(rule);
    add_lexeme(from, name_lexeme(name), value, adds_one);
    rules_->add_edge(value, {.kind = Edge::Kind::call, .value = rule_of(term), .target = to});
  };
  const RuleState first = rules_->add_state(rule);
  add_lexeme(rules_->rule(rule).start, symbol("{"), first);
  if (counts_others) {
    rules_->set_counts(rule, object.min, object.max);
    const RuleState after = rules_->add_state(rule), before = rules_->add_state(rule);
    add_lexeme(first, arena_->literal("}"), end, false, true);
    add_lexeme(after, symbol("}"), end, false, true);
    add_lexeme(after, symbol(","), before, true);
    for (const ObjectShape::Names& names : others) {
      add_member(first, names.language, names.term, after, true);
      add_member(before, names.language, names.term, after, false);
    }
    return {};
  }
  // After a member: by the next property, and by the number of members.
  std::map<std::pair<size_t, uint32_t>, RuleState> after, before;
  std::vector<std::pair<size_t, uint32_t>> open;
  const auto clipped = [&](uint32_t count) { return object.max != kUnbounded ? count : std::min(count, n_counts); };
  const auto after_at = [&](size_t i, uint32_t count) {
    const auto [found, is_new] = after.try_emplace({i, count}, 0);
    if (is_new) {
      found->second = rules_->add_state(rule);
      open.emplace_back(i, count);
    }
    return found->second;
  };
  // Members that may come from a place where the next property is the i-th.
  const auto add_members = [&](RuleState from, size_t i, uint32_t count) {
    if (object.max != kUnbounded && count >= object.max) return;
    for (; i < n; ++i) {
      add_member(from, algebra_->spelling().text(properties[i].name), properties[i].term,
                 after_at(i + 1, clipped(count + 1)), false);
      if (properties[i].is_required) return;
    }
    for (const ObjectShape::Names& names : others)
      add_member(from, names.language, names.term, after_at(n, clipped(count + 1)), false);
  };
  const auto may_close = [&](size_t i, uint32_t count) {
    const auto rest = std::span(properties).subspan(i);
    return count >= object.min && std::ranges::none_of(rest, [](const Property& p) { return p.is_required; });
  };
  add_members(first, 0, 0);
  if (may_close(0, 0)) add_lexeme(first, arena_->literal("}"), end);
  for (size_t at = 0; at < open.size(); ++at) {
    const auto [i, count] = open[at];
    const RuleState state = after.at(open[at]);
    if (may_close(i, count)) add_lexeme(state, symbol("}"), end);
    const RuleState next = rules_->add_state(rule);
    add_lexeme(state, symbol(","), next);
    add_members(next, i, count);
    if (rules_->n_states() > kMaxStates) return std::unexpected(refused("properties", "too many states"));
  }
  return {};
}

}  // namespace tessera::text::grammar
