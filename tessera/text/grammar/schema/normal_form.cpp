#include "tessera/text/grammar/schema/normal_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/base/index.h"
#include "tessera/text/grammar/regex_language.h"
#include "tessera/text/grammar/schema/formats.h"
#include "tessera/text/grammar/schema/text_set.h"
#include "tessera/text/utf8.h"

namespace tessera::text::grammar {
namespace {

using Kind = Document::Kind;
using Place = Document::Place;

constexpr std::string_view kTooLarge = "the union of its alternatives is too large";
constexpr uint32_t kMaxCount = 1'000'000'000;

Shape* find_shape(Shapes& shapes, ShapeType type) {
  const auto found = std::ranges::find(shapes, type, &Shape::type);
  return found == shapes.end() ? nullptr : &*found;
}

}  // namespace

NormalForms::NormalForms(const Document& document, const References& references, ShapeAlgebra& algebra,
                         const SchemaOptions& options)
    : document_(&document), references_(&references), algebra_(&algebra), options_(options) {
  shapes_.emplace(Terms::kAlways, std::make_unique<const Shapes>(algebra.everything()));
  shapes_.emplace(Terms::kNever, std::make_unique<const Shapes>());
}

GrammarError NormalForms::refusal(Place place, std::string_view keyword, std::string message) const {
  std::string pointer = document_->pointer(place);
  if (!keyword.empty()) pointer += fmt::format("/{}", keyword);
  return {.message = std::move(message),
          .pointer = std::move(pointer),
          .keyword = std::string(keyword),
          .is_of_schema = true};
}

Place NormalForms::keyword(Place place, std::string_view name) const { return document_->member(place, name); }

GrammarError NormalForms::at(Term term, GrammarError error) const {
  const Terms::Node* node = &algebra_->terms().node(term);
  if (node->kind == Terms::Kind::all) {
    const auto is_schema = [&](Term part) { return algebra_->terms().node(part).kind == Terms::Kind::schema; };
    const auto part = std::ranges::find_if(node->parts, is_schema);
    if (part != node->parts.end()) node = &algebra_->terms().node(*part);
  }
  if (!error.pointer.empty() || node->kind != Terms::Kind::schema) return error;
  return refusal(node->place, error.keyword, std::move(error.message));
}

// A term after all terms that its shapes are made of.
std::expected<const Shapes*, GrammarError> NormalForms::of(Term root) {
  struct Step {
    Term term;
    std::vector<Term> needs;
  };
  std::vector<Step> path;
  std::set<Term> on_path;
  const auto enter = [&](Term term) -> std::expected<void, GrammarError> {
    if (shapes_.contains(term)) return {};
    const Terms::Node& node = algebra_->terms().node(term);
    if (!on_path.insert(term).second)
      return std::unexpected(refusal(node.place, "$ref", "the schema refers to itself without a value between"));
    Step step{term, node.parts};
    if (node.kind == Terms::Kind::schema) {
      auto needs = needs_of_schema(node.place);
      if (!needs) return std::unexpected(needs.error());
      step.needs = std::move(*needs);
    }
    path.push_back(std::move(step));
    return {};
  };
  if (const auto entered = enter(root); !entered) return std::unexpected(entered.error());
  while (!path.empty()) {
    if (!path.back().needs.empty()) {
      const Term next = path.back().needs.back();
      path.back().needs.pop_back();
      if (const auto entered = enter(next); !entered) return std::unexpected(entered.error());
      continue;
    }
    const Term term = path.back().term;
    if (!algebra_->arena().has_steps()) return std::unexpected(refusal(0, "", std::string(kTooLarge)));
    auto shapes = compute(term);
    if (!shapes) return std::unexpected(shapes.error());
    shapes_.emplace(term, std::make_unique<const Shapes>(std::move(*shapes)));
    on_path.erase(term);
    path.pop_back();
  }
  return shapes_.at(root).get();
}

// The schemas that apply to the same value.
std::expected<std::vector<Term>, GrammarError> NormalForms::needs_of_schema(Place place) {
  std::vector<Term> needs;
  if (!document_->is(place, Kind::object)) return needs;
  Terms& terms = algebra_->terms();
  for (const std::string_view name : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const Place reference = keyword(place, name);
    if (reference == Document::kNone) continue;
    if (!document_->is(reference, Kind::string)) return std::unexpected(refusal(place, name, "want a string"));
    const auto target = references_->resolve(place, name, document_->text(reference));
    if (!target) return std::unexpected(refusal(place, name, target.error()));
    needs.push_back(terms.schema(*target));
    if (references_->draft() <= Draft::draft7) return needs;
  }
  for (const std::string_view name : {"allOf", "anyOf", "oneOf"}) {
    const Place list = keyword(place, name);
    if (list == Document::kNone) continue;
    if (!document_->is(list, Kind::array) || document_->elements(list).empty())
      return std::unexpected(refusal(place, name, "want a list of schemas"));
    for (const Place element : document_->elements(list)) needs.push_back(terms.schema(element));
  }
  for (const std::string_view name : {"not", "if", "then", "else", "propertyNames"})
    if (const Place schema = keyword(place, name); schema != Document::kNone) needs.push_back(terms.schema(schema));
  for (const std::string_view name : {"dependentSchemas", "dependencies"}) {
    const Place map = keyword(place, name);
    if (map == Document::kNone || !document_->is(map, Kind::object)) continue;
    for (const Document::Member& member : document_->members(map))
      if (!document_->is(member.value, Kind::array)) needs.push_back(terms.schema(member.value));
  }
  return needs;
}

NormalForms::Outcome NormalForms::compute(Term term) {
  const Terms::Node& node = algebra_->terms().node(term);
  switch (node.kind) {
    case Terms::Kind::always:
    case Terms::Kind::never:
      break;
    case Terms::Kind::schema:
      return of_schema(node.place);
    case Terms::Kind::value:
      return Shapes{shape_of_value(node.place)};
    case Terms::Kind::all: {
      Shapes joined = *shapes_.at(node.parts[0]);
      for (const Term part : std::span(node.parts).subspan(1)) {
        auto both = algebra_->both(joined, *shapes_.at(part));
        if (!both) return std::unexpected(refusal(0, "", std::string(kTooLarge)));
        joined = std::move(*both);
      }
      return joined;
    }
    case Terms::Kind::negation: {
      auto other = algebra_->complement(*shapes_.at(node.parts[0]));
      const Terms::Node& inner = algebra_->terms().node(node.parts[0]);
      if (!other)
        return std::unexpected(refusal(inner.place, "", "its complement is not a union that is small enough"));
      return std::move(*other);
    }
  }
  return *shapes_.at(term);
}

NormalForms::Outcome NormalForms::of_schema(Place place) {
  if (document_->is(place, Kind::boolean)) return document_->boolean(place) ? known_always() : Shapes();
  if (!document_->is(place, Kind::object))
    return std::unexpected(refusal(place, "", "want a schema: an object, true or false"));
  const auto join = [&](Shapes& shapes, const Shapes& more,
                        std::string_view name) -> std::expected<void, GrammarError> {
    auto both = algebra_->both(shapes, more);
    if (!both) return std::unexpected(refusal(place, name, std::string(kTooLarge)));
    shapes = std::move(*both);
    return {};
  };
  const Place reference = keyword(place, "$ref");
  if (reference != Document::kNone && references_->draft() <= Draft::draft7)
    return known(*references_->resolve(place, "$ref", document_->text(reference)));
  auto own = own_shapes(place);
  if (!own) return own;
  Shapes shapes = std::move(*own);
  for (const std::string_view name : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const Place to = keyword(place, name);
    if (to == Document::kNone) continue;
    if (const auto done = join(shapes, known(*references_->resolve(place, name, document_->text(to))), name); !done)
      return std::unexpected(done.error());
  }
  if (const Place list = keyword(place, "allOf"); list != Document::kNone)
    for (const Place element : document_->elements(list))
      if (const auto done = join(shapes, known(element), "allOf"); !done) return std::unexpected(done.error());
  if (const Place list = keyword(place, "anyOf"); list != Document::kNone) {
    const auto any = any_of(list);
    if (!any) return std::unexpected(refusal(place, "anyOf", std::string(kTooLarge)));
    if (const auto done = join(shapes, *any, "anyOf"); !done) return std::unexpected(done.error());
  }
  if (const Place list = keyword(place, "oneOf"); list != Document::kNone) {
    auto one = one_of(place, list, shapes);
    if (!one) return one;
    shapes = std::move(*one);
  }
  if (const Place other = keyword(place, "not"); other != Document::kNone) {
    const auto complement = algebra_->complement(known(other));
    if (!complement)
      return std::unexpected(refusal(place, "not", "its complement is not a union that is small enough"));
    if (const auto done = join(shapes, *complement, "not"); !done) return std::unexpected(done.error());
  }
  if (const Place condition = keyword(place, "if"); condition != Document::kNone) {
    auto chosen = if_then_else(place, condition, shapes);
    if (!chosen) return chosen;
    shapes = std::move(*chosen);
  }
  auto dependent = with_dependencies(place, std::move(shapes));
  if (!dependent) return dependent;
  return with_unevaluated(place, std::move(*dependent));
}

// If unevaluated members matter, the values that several alternatives have in common are shapes of their own.
std::optional<Shapes> NormalForms::any_of(Place list) {
  std::optional<Shapes> any = Shapes();
  for (const Place element : document_->elements(list)) {
    const auto all = references_->has_unevaluated() ? algebra_->both(*any, known(element)) : Shapes();
    if (!all) return std::nullopt;
    any = algebra_->either(*any, known(element));
    if (any) any = algebra_->either(*any, *all);
    if (!any) return std::nullopt;
  }
  return any;
}

const Shapes& NormalForms::known_always() const { return *shapes_.at(Terms::kAlways); }

NormalForms::Outcome NormalForms::if_then_else(Place place, Place condition, const Shapes& shapes) {
  const Place then = keyword(place, "then"), otherwise = keyword(place, "else");
  const bool has_branch = then != Document::kNone || otherwise != Document::kNone;
  if (!has_branch && !references_->has_unevaluated()) return shapes;
  const auto side = [&](const std::optional<Shapes>& side_shapes, Place branch) -> std::optional<Shapes> {
    if (!side_shapes) return std::nullopt;
    auto both = algebra_->both(shapes, *side_shapes);
    if (!both || branch == Document::kNone) return both;
    return algebra_->both(*both, known(branch));
  };
  const auto yes = side(known(condition), then);
  const auto no = side(algebra_->complement(known(condition)), otherwise);
  if (!yes || !no) return std::unexpected(refusal(place, "if", "the cases are not a union that is small enough"));
  auto either = algebra_->either(*yes, *no);
  if (!either) return std::unexpected(refusal(place, "if", std::string(kTooLarge)));
  return std::move(*either);
}

// Alternatives that have no value in common are a union. Others are each without the values of the others.
NormalForms::Outcome NormalForms::one_of(Place place, Place list, const Shapes& shapes) {
  const std::span<const Place> elements = document_->elements(list);
  std::vector<Shapes> branches;
  for (const Place element : elements) {
    auto branch = algebra_->both(shapes, known(element));
    if (!branch) return std::unexpected(refusal(place, "oneOf", std::string(kTooLarge)));
    branches.push_back(std::move(*branch));
  }
  Shapes one;
  for (size_t i = 0; i < branches.size(); ++i) {
    Shapes alone = branches[i];
    for (size_t j = 0; j < branches.size(); ++j) {
      if (i == j || alone.empty() || algebra_->are_disjoint(alone, branches[j])) continue;
      const auto rest = algebra_->complement(known(elements[j]));
      auto less = rest ? algebra_->both(alone, *rest) : std::nullopt;
      if (!less)
        return std::unexpected(refusal(place, "oneOf",
                                       fmt::format("branches {} and {} overlap and their difference is too large",
                                                   std::min(i, j), std::max(i, j))));
      alone = std::move(*less);
    }
    auto either = algebra_->either(one, alone);
    if (!either) return std::unexpected(refusal(place, "oneOf", std::string(kTooLarge)));
    one = std::move(*either);
  }
  return one;
}

// The shapes that the keywords without schemas for the same value leave.
NormalForms::Outcome NormalForms::own_shapes(Place place) {
  Shapes shapes = algebra_->everything();
  if (const auto done = narrow_by_types(place, shapes); !done) return std::unexpected(done.error());
  if (Shape* shape = find_shape(shapes, ShapeType::number))
    if (const auto done = narrow_numbers(place, *shape); !done) return std::unexpected(done.error());
  if (Shape* shape = find_shape(shapes, ShapeType::string))
    if (const auto done = narrow_strings(place, *shape); !done) return std::unexpected(done.error());
  if (Shape* shape = find_shape(shapes, ShapeType::array)) {
    auto array = array_of(place);
    if (!array) return std::unexpected(array.error());
    shape->array = std::make_shared<const ArrayShape>(std::move(*array));
  }
  if (Shape* shape = find_shape(shapes, ShapeType::object)) {
    auto object = object_of(place);
    if (!object) return std::unexpected(object.error());
    shape->object = std::make_shared<const ObjectShape>(std::move(*object));
  }
  // Shapes that no value has are left out.
  auto possible = algebra_->both(shapes, known_always());
  if (!possible) return std::unexpected(refusal(place, "", std::string(kTooLarge)));
  return values_of(place, std::move(*possible));
}

std::expected<void, GrammarError> NormalForms::narrow_by_types(Place place, Shapes& shapes) {
  const Place types = keyword(place, "type");
  if (types == Document::kNone) return {};
  std::vector<std::string_view> names;
  if (document_->is(types, Kind::string)) names.push_back(document_->text(types));
  if (document_->is(types, Kind::array))
    for (const Place element : document_->elements(types)) names.push_back(document_->text(element));
  const Place nullable = keyword(place, "nullable");
  if (nullable != Document::kNone && document_->is(nullable, Kind::boolean) && document_->boolean(nullable))
    names.push_back("null");
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  for (const std::string_view name : names) {
    constexpr std::string_view kNames[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    if (std::ranges::find(kNames, name) == std::end(kNames))
      return std::unexpected(refusal(place, "type", fmt::format("unknown type {}", quote_text(name))));
  }
  if (names.empty()) return std::unexpected(refusal(place, "type", "want a type or a list of types"));
  std::erase_if(shapes, [&](const Shape& shape) {
    switch (shape.type) {
      case ShapeType::null:
        return !has("null");
      case ShapeType::false_:
      case ShapeType::true_:
        return !has("boolean");
      case ShapeType::number:
        return !has("number") && !has("integer");
      case ShapeType::string:
        return !has("string");
      case ShapeType::array:
        return !has("array");
      case ShapeType::object:
        return !has("object");
    }
    return true;
  });
  Shape* number = find_shape(shapes, ShapeType::number);
  if (number != nullptr && !has("number")) number->is_integer = true;
  return {};
}

std::expected<void, GrammarError> NormalForms::narrow_numbers(Place place, Shape& shape) {
  ExpressionArena& arena = algebra_->arena();
  const NumberLanguage& numbers = algebra_->numbers();
  const auto bound_of = [&](Place value, std::string_view name) -> std::expected<Decimal, GrammarError> {
    const auto bound = document_->is(value, Kind::number) ? Decimal::parse(document_->text(value)) : std::nullopt;
    if (!bound) return std::unexpected(refusal(place, name, "want a number of at most 1000 digits"));
    return *bound;
  };
  struct Bound {
    std::string_view name, exclusive;
    bool is_lower;
  };
  constexpr Bound kBounds[] = {{"minimum", "exclusiveMinimum", true}, {"maximum", "exclusiveMaximum", false}};
  for (const Bound& names : kBounds) {
    const Place exclusive = keyword(place, names.exclusive);
    const bool is_flag = exclusive != Document::kNone && document_->is(exclusive, Kind::boolean);  // draft 4
    const auto narrow = [&](std::string_view name, bool is_strict) -> std::expected<void, GrammarError> {
      const auto bound = bound_of(keyword(place, name), name);
      if (!bound) return std::unexpected(bound.error());
      // Above it or not below it; not above it, or below it.
      const Expression upper = is_strict == names.is_lower ? numbers.above(*bound) : numbers.at_least(*bound);
      shape.text = arena.all_of(shape.text, names.is_lower ? upper : arena.complement(upper));
      return {};
    };
    if (keyword(place, names.name) != Document::kNone)
      if (const auto done = narrow(names.name, is_flag && document_->boolean(exclusive)); !done) return done;
    if (exclusive != Document::kNone && !is_flag)
      if (const auto done = narrow(names.exclusive, true); !done) return done;
  }
  const Place factor = keyword(place, "multipleOf");
  if (factor == Document::kNone) return {};
  const auto value = bound_of(factor, "multipleOf");
  if (!value) return std::unexpected(value.error());
  if (value->is_negative || value->is_zero())
    return std::unexpected(refusal(place, "multipleOf", "want a number above 0"));
  if (!numbers.multiples(*value))
    return std::unexpected(
        refusal(place, "multipleOf", fmt::format("more than {} remainders", NumberLanguage::kMaxFactor)));
  if (*value == Decimal{.integer = "1"})
    shape.is_integer = true;
  else
    shape.factors.push_back({*value});
  return {};
}

std::expected<uint32_t, GrammarError> NormalForms::count(Place place, std::string_view name, uint32_t fallback) {
  const Place value = keyword(place, name);
  if (value == Document::kNone) return fallback;
  const auto number = document_->is(value, Kind::number) ? Decimal::parse(document_->text(value)) : std::nullopt;
  if (!number || number->is_negative || !number->is_integer())
    return std::unexpected(refusal(place, name, "want a whole number"));
  if (number->integer.size() > 9) return kMaxCount;
  return static_cast<uint32_t>(std::stoul(number->integer));
}

std::expected<Expression, GrammarError> NormalForms::pattern(Place place, std::string_view name,
                                                             std::string_view source) {
  const auto tree = RegexTree::parse(source);
  if (!tree)
    return std::unexpected(refusal(place, name, fmt::format("at {}: {}", tree.error().column, tree.error().message)));
  const Spelling spelling = [this](const CodePointSet& set) { return algebra_->spelling().code_points(set); };
  return language_of(*tree, MatchPlace::anywhere, spelling, algebra_->arena());
}

std::expected<void, GrammarError> NormalForms::narrow_strings(Place place, Shape& shape) {
  ExpressionArena& arena = algebra_->arena();
  const auto min = count(place, "minLength", 0), max = count(place, "maxLength", kUnbounded);
  if (!min || !max) return std::unexpected(!min ? min.error() : max.error());
  if (*min > kMaxRepeat) return std::unexpected(refusal(place, "minLength", "more than 1000000 characters"));
  if (*max < *min) {
    shape.text = ExpressionArena::kNothing;
  } else if (*min > 0 || *max != kUnbounded) {
    const Expression any = algebra_->spelling().any_code_point();
    shape.text = algebra_->both_texts(shape.text, arena.repeat(any, *min, *max));
  }
  if (const Place source = keyword(place, "pattern"); source != Document::kNone) {
    if (!document_->is(source, Kind::string)) return std::unexpected(refusal(place, "pattern", "want a string"));
    const auto language = pattern(place, "pattern", document_->text(source));
    if (!language) return std::unexpected(language.error());
    shape.text = algebra_->both_texts(shape.text, *language);
  }
  const Place format = keyword(place, "format");
  if (format == Document::kNone || !options_.enforces_formats || !document_->is(format, Kind::string)) return {};
  const Spelling spelling = [this](const CodePointSet& set) { return algebra_->spelling().code_points(set); };
  if (const auto language = format_language(document_->text(format), spelling, arena))
    shape.text = algebra_->both_texts(shape.text, *language);
  return {};
}

// The values of const and enum that the other keywords allow.
NormalForms::Outcome NormalForms::values_of(Place place, Shapes shapes) {
  for (const std::string_view name : {"const", "enum"}) {
    const Place given = keyword(place, name);
    if (given == Document::kNone) continue;
    if (name == "enum" && !document_->is(given, Kind::array))
      return std::unexpected(refusal(place, name, "want a list of values"));
    std::vector<Place> values = {given};
    if (name == "enum") values.assign(document_->elements(given).begin(), document_->elements(given).end());
    Shapes found;
    TextSet texts(algebra_->arena());
    for (const Place value : values) {
      if (!algebra_->arena().has_steps()) break;
      if (document_->is(value, Kind::string)) {
        texts.add(algebra_->spelling().characters(document_->text(value)));
      } else {
        found.push_back(shape_of_value(value));
      }
    }
    if (!texts.empty()) found.push_back({.type = ShapeType::string, .text = texts.expression()});
    auto merged = algebra_->either(found, {});
    auto both = merged ? algebra_->both(shapes, *merged) : std::nullopt;
    if (!both) return std::unexpected(refusal(place, name, std::string(kTooLarge)));
    shapes = std::move(*both);
  }
  return shapes;
}

Shape NormalForms::shape_of_value(Place place) {
  ExpressionArena& arena = algebra_->arena();
  switch (document_->kind(place)) {
    case Kind::null:
      return {.type = ShapeType::null};
    case Kind::boolean:
      return {.type = document_->boolean(place) ? ShapeType::true_ : ShapeType::false_};
    case Kind::number: {
      const auto value = Decimal::parse(document_->text(place));
      if (!value) return {.type = ShapeType::number};  // no text
      const NumberLanguage& numbers = algebra_->numbers();
      Shape shape = {.type = ShapeType::number, .text = numbers.equal(*value)};
      if (algebra_->spelling().output().writing == JsonWriting::plain)
        shape.written = arena.any_of(arena.literal(document_->text(place)), algebra_->integers_of(shape.text));
      return shape;
    }
    case Kind::string: {
      return {.type = ShapeType::string, .text = algebra_->spelling().text(document_->text(place))};
    }
    case Kind::array: {
      ArrayShape array = {.rest = Terms::kNever};
      for (const Place element : document_->elements(place)) array.prefix.push_back(algebra_->terms().value(element));
      array.min = array.max = static_cast<uint32_t>(array.prefix.size());
      return {.type = ShapeType::array, .array = std::make_shared<const ArrayShape>(std::move(array))};
    }
    case Kind::object: {
      ObjectShape object = {.others = {{algebra_->any_string(), Terms::kNever}}};
      for (const Document::Member& member : document_->members(place))
        object.properties.push_back({member.name, algebra_->terms().value(member.value), true});
      return {.type = ShapeType::object, .object = std::make_shared<const ObjectShape>(std::move(object))};
    }
  }
  return {.type = ShapeType::null};
}

// A name that is there asks for other names, or for a schema.
NormalForms::Outcome NormalForms::with_dependencies(Place place, Shapes shapes) {
  // Later drafts know `dependencies` only as an option, which validators have.
  const bool is_old = references_->draft() <= Draft::draft7;
  for (const std::string_view name : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Place map = keyword(place, name);
    if (map == Document::kNone || (name != "dependencies" && is_old)) continue;
    if (!document_->is(map, Kind::object)) return std::unexpected(refusal(place, name, "want an object"));
    for (const Document::Member& member : document_->members(map)) {
      if (!algebra_->arena().has_steps()) return shapes;
      Shapes any = algebra_->everything();
      const auto with_object = [&](auto change) {
        Shapes changed = any;
        ObjectShape object = *find_shape(changed, ShapeType::object)->object;
        change(object);
        find_shape(changed, ShapeType::object)->object = std::make_shared<const ObjectShape>(std::move(object));
        return changed;
      };
      const Shapes absent =
          with_object([&](ObjectShape& object) { algebra_->listed(object, member.name).term = Terms::kNever; });
      Shapes present = {*find_shape(any, ShapeType::object)};
      ObjectShape object = *present[0].object;
      algebra_->listed(object, member.name).is_required = true;
      if (document_->is(member.value, Kind::array))
        algebra_->require(object, document_->elements(member.value), *document_);
      present[0].object = std::make_shared<const ObjectShape>(std::move(object));
      auto yes = algebra_->both(shapes, present);
      if (yes && !document_->is(member.value, Kind::array)) yes = algebra_->both(*yes, known(member.value));
      const auto no = algebra_->both(shapes, absent);
      auto either = yes && no ? algebra_->either(*yes, *no) : std::nullopt;
      if (!either) return std::unexpected(refusal(place, name, std::string(kTooLarge)));
      shapes = std::move(*either);
    }
  }
  return shapes;
}

NormalForms::Outcome NormalForms::with_unevaluated(Place place, Shapes shapes) {
  if (references_->draft() < Draft::draft2019) return shapes;
  ExpressionArena& arena = algebra_->arena();
  if (const Place more = keyword(place, "unevaluatedProperties"); more != Document::kNone) {
    const Term term = condition(more);
    for (Shape& shape : shapes) {
      if (shape.type != ShapeType::object) continue;
      const Expression any = algebra_->any_string(), seen = arena.all_of(any, shape.object->evaluated);
      ObjectShape others = {.others = {{seen, Terms::kAlways}, {arena.all_of(any, arena.complement(seen)), term}},
                            .evaluated = any};
      auto both = algebra_->both(*shape.object, others);
      if (!both) return std::unexpected(refusal(place, "unevaluatedProperties", std::string(kTooLarge)));
      shape.object = std::make_shared<const ObjectShape>(std::move(*both));
    }
  }
  if (const Place more = keyword(place, "unevaluatedItems"); more != Document::kNone) {
    const Term term = condition(more);
    for (Shape& shape : shapes) {
      if (shape.type != ShapeType::array || shape.array->n_evaluated == SIZE_MAX) continue;
      Terms& terms = algebra_->terms();
      Term rest = term;
      if (references_->draft() >= Draft::draft2020)  // items that `contains` asks for are evaluated
        for (const Term evaluated : shape.array->evaluated)
          rest = terms.negation(terms.all_of(terms.negation(rest), terms.negation(evaluated)));
      ArrayShape others = {
          .prefix = std::vector<Term>(shape.array->n_evaluated, Terms::kAlways), .rest = rest, .n_evaluated = SIZE_MAX};
      shape.array = std::make_shared<const ArrayShape>(algebra_->both(*shape.array, others));
    }
  }
  return shapes;
}

}  // namespace tessera::text::grammar
