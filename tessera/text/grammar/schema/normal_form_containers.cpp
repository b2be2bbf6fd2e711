// The keywords of arrays and objects.
#include <algorithm>

#include "tessera/text/grammar/schema/normal_form.h"

namespace tessera::text::grammar {

// A schema that is true or false is told from others, since much is simpler beside it.
Term NormalForms::condition(Place schema) const {
  if (document_->is(schema, Document::Kind::boolean))
    return document_->boolean(schema) ? Terms::kAlways : Terms::kNever;
  const bool is_empty = document_->is(schema, Document::Kind::object) && document_->members(schema).empty();
  return is_empty ? Terms::kAlways : algebra_->terms().schema(schema);
}

std::expected<ArrayShape, GrammarError> NormalForms::array_of(Place place) {
  ArrayShape array;
  Place items = keyword(place, "items");
  Place prefix = keyword(place, "prefixItems");
  Place rest = items;
  if (items != Document::kNone && document_->is(items, Document::Kind::array)) {  // drafts before 2020-12
    prefix = items;
    rest = keyword(place, "additionalItems");
  }
  if (prefix != Document::kNone) {
    if (!document_->is(prefix, Document::Kind::array))
      return std::unexpected(refusal(place, "prefixItems", "want a list of schemas"));
    for (const Place element : document_->elements(prefix)) array.prefix.push_back(condition(element));
    array.n_evaluated = array.prefix.size();
  }
  if (rest != Document::kNone) {
    array.rest = condition(rest);
    array.n_evaluated = SIZE_MAX;
  }
  const auto min = count(place, "minItems", 0), max = count(place, "maxItems", kUnbounded);
  if (!min || !max) return std::unexpected(!min ? min.error() : max.error());
  array.min = *min;
  array.max = *max;
  if (const Place contained = keyword(place, "contains"); contained != Document::kNone) {
    const bool has_bounds = references_->draft() >= Draft::draft2019;
    const auto least = has_bounds ? count(place, "minContains", 1) : std::expected<uint32_t, GrammarError>(1);
    const auto most =
        has_bounds ? count(place, "maxContains", kUnbounded) : std::expected<uint32_t, GrammarError>(kUnbounded);
    if (!least || !most) return std::unexpected(!least ? least.error() : most.error());
    array.evaluated.push_back(condition(contained));
    if (*least > 0 || *most != kUnbounded)
      array.contains.push_back({.term = condition(contained), .min = *least, .max = *most});
  }
  const Place unique = keyword(place, "uniqueItems");
  array.is_unique =
      unique != Document::kNone && document_->is(unique, Document::Kind::boolean) && document_->boolean(unique);
  return array;
}

std::expected<ObjectShape, GrammarError> NormalForms::object_of(Place place) {
  ObjectShape object;
  Terms& terms = algebra_->terms();
  ExpressionArena& arena = algebra_->arena();
  const Expression any = algebra_->any_string();
  // Names by the patterns that they match, from all names to ever smaller sets.
  object.others = {{any, Terms::kAlways}};
  Expression matched = ExpressionArena::kNothing;
  if (const Place patterns = keyword(place, "patternProperties"); patterns != Document::kNone) {
    if (!document_->is(patterns, Document::Kind::object))
      return std::unexpected(refusal(place, "patternProperties", "want an object"));
    for (const Document::Member& member : document_->members(patterns)) {
      const auto language = pattern(place, "patternProperties", member.name);
      if (!language) return std::unexpected(language.error());
      matched = arena.any_of(matched, *language);
      std::vector<ObjectShape::Names> divided;
      for (const ObjectShape::Names& names : object.others) {
        const Expression inside = arena.all_of(names.language, *language);
        const Expression outside = arena.all_of(names.language, arena.complement(*language));
        if (!algebra_->is_empty(inside)) divided.push_back({inside, terms.all_of(names.term, condition(member.value))});
        if (!algebra_->is_empty(outside)) divided.push_back({outside, names.term});
      }
      object.others = std::move(divided);
      if (object.others.size() > ShapeAlgebra::kMaxShapes)
        return std::unexpected(refusal(place, "patternProperties", "too many patterns overlap"));
    }
    object.evaluated = arena.all_of(any, matched);
  }
  if (const Place properties = keyword(place, "properties"); properties != Document::kNone) {
    if (!document_->is(properties, Document::Kind::object))
      return std::unexpected(refusal(place, "properties", "want an object"));
    std::vector<Expression> listed;
    for (const Document::Member& member : document_->members(properties)) {
      const Term own = condition(member.value);
      const bool has_patterns = matched != ExpressionArena::kNothing;
      const Term all =
          has_patterns ? terms.all_of(own, algebra_->term_of({.others = object.others}, member.name)) : own;
      object.properties.push_back({.name = member.name, .term = all});
      listed.push_back(algebra_->spelling().text(member.name));
    }
    listed.push_back(object.evaluated);
    object.evaluated = arena.any_of(std::move(listed));
  }
  if (const Place more = keyword(place, "additionalProperties"); more != Document::kNone) {
    // The names that no pattern matches are one of the sets.
    for (ObjectShape::Names& names : object.others)
      if (algebra_->is_empty(arena.all_of(names.language, matched)))
        names.term = terms.all_of(names.term, condition(more));
    object.evaluated = any;
  }
  if (const Place names = keyword(place, "propertyNames"); names != Document::kNone) {
    const Expression allowed = names_of(names);
    for (ObjectShape::Property& property : object.properties)
      if (!algebra_->has_name(allowed, property.name)) property.term = Terms::kNever;
    std::vector<ObjectShape::Names> divided;
    for (const ObjectShape::Names& others : object.others) {
      const Expression inside = arena.all_of(others.language, allowed);
      const Expression outside = arena.all_of(others.language, arena.complement(allowed));
      if (!algebra_->is_empty(inside)) divided.push_back({inside, others.term});
      if (!algebra_->is_empty(outside)) divided.push_back({outside, Terms::kNever});
    }
    object.others = std::move(divided);
  }
  if (const Place required = keyword(place, "required");
      required != Document::kNone && !document_->is(required, Document::Kind::boolean)) {
    if (!document_->is(required, Document::Kind::array))
      return std::unexpected(refusal(place, "required", "want a list of names"));
    algebra_->require(object, document_->elements(required), *document_);
  }
  const auto min = count(place, "minProperties", 0), max = count(place, "maxProperties", kUnbounded);
  if (!min || !max) return std::unexpected(!min ? min.error() : max.error());
  object.min = *min;
  object.max = *max;
  return object;
}

// Only the strings among the values of a schema are names. The schema is one of those that of() has computed.
Expression NormalForms::names_of(Place place) const {
  for (const Shape& shape : known(place))
    if (shape.type == ShapeType::string) return shape.text;
  return ExpressionArena::kNothing;
}

}  // namespace tessera::text::grammar
