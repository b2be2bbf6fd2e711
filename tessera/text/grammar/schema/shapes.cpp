#include "tessera/text/grammar/schema/shapes.h"

#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/grammar/seen_values.h"

namespace tessera::text::grammar {
namespace {

using Property = ObjectShape::Property;

constexpr size_t kNamesPerStep = 8;  // to compare so many names takes about the time of a derivative

Shape shape_of(ArrayShape array) {
  return {.type = ShapeType::array, .array = std::make_shared<const ArrayShape>(std::move(array))};
}
Shape shape_of(ObjectShape object) {
  return {.type = ShapeType::object, .object = std::make_shared<const ObjectShape>(std::move(object))};
}

}  // namespace

Terms::Terms() {
  add({.kind = Kind::always});
  add({.kind = Kind::never});
}

Term Terms::add(Node node) {
  const auto [found, is_new] = numbers_.try_emplace(std::move(node), static_cast<Term>(nodes_.size()));
  if (is_new) nodes_.push_back(&found->first);
  return found->second;
}

Term Terms::all_of(std::span<const Term> terms) {
  std::vector<Term> parts;
  for (const Term term : terms) {
    if (term == kNever) return kNever;
    if (term == kAlways) continue;
    const Node& known = node(term);
    if (known.kind == Kind::all)
      parts.insert(parts.end(), known.parts.begin(), known.parts.end());
    else
      parts.push_back(term);
  }
  std::ranges::sort(parts);
  const auto repeated = std::ranges::unique(parts);
  parts.erase(repeated.begin(), repeated.end());
  if (parts.empty()) return kAlways;
  if (parts.size() == 1) return parts[0];
  for (const Term part : parts)
    if (node(part).kind == Kind::negation && std::ranges::binary_search(parts, node(part).parts[0])) return kNever;
  return add({.kind = Kind::all, .parts = std::move(parts)});
}

Term Terms::all_of(Term a, Term b) {
  const Term pair[] = {a, b};
  return all_of(pair);
}

Term Terms::negation(Term term) {
  if (term == kAlways) return kNever;
  if (term == kNever) return kAlways;
  if (node(term).kind == Kind::negation) return node(term).parts[0];
  return add({.kind = Kind::negation, .parts = {term}});
}

ShapeAlgebra::ShapeAlgebra(ExpressionArena& arena, LexemeStates& states, Terms& terms, const JsonSpelling& spelling)
    : arena_(&arena),
      states_(&states),
      terms_(&terms),
      spelling_(spelling),
      numbers_(arena, spelling.output().writing),
      any_string_(arena.repeat(spelling.any_code_point(), 0, kUnbounded)),
      any_number_(numbers_.all()),
      any_integer_(numbers_.written_integers()) {}

Shapes ShapeAlgebra::everything() {
  return {{.type = ShapeType::null},
          {.type = ShapeType::false_},
          {.type = ShapeType::true_},
          {.type = ShapeType::number, .text = any_number_},
          {.type = ShapeType::string, .text = any_string_},
          shape_of(ArrayShape{}),
          shape_of(ObjectShape{.others = {{any_string_, Terms::kAlways}}})};
}

// An intersection would hide that an expression is plain.
Expression ShapeAlgebra::both_texts(Expression a, Expression b) const {
  if (a == any_string_) return b;
  return b == any_string_ ? a : arena_->all_of(a, b);
}

bool ShapeAlgebra::has_name(Expression language, std::string_view name) {
  for (const char c : spelling_.plain_text(name)) language = arena_->derivative(language, static_cast<uint8_t>(c));
  return arena_->is_nullable(language);
}

// An intersection would hide that an expression is plain.
Expression ShapeAlgebra::integers_of(Expression numbers) {
  const bool has_all = numbers == any_number_ && spelling_.output().writing == JsonWriting::plain;
  return has_all ? any_integer_ : arena_->all_of(numbers, any_integer_);
}

// Each integer has a text of the writing.
bool ShapeAlgebra::is_empty(const Shape& shape) {
  return is_empty(shape.is_integer ? integers_of(shape.text) : shape.text);
}

bool ShapeAlgebra::has_values(Expression texts, uint32_t n) {
  SeenValues values(*arena_, spelling_.output());
  for (; n > 0; --n) {
    const auto text = states_->shortest_text(texts);
    if (!text) return false;
    texts = arena_->all_of(texts, arena_->complement(values.texts_of(*text, false)));
  }
  return true;
}

Term ShapeAlgebra::term_of(const ObjectShape& object, const std::string& name) {
  arena_->spend_steps(object.properties.size() / kNamesPerStep);
  const auto listed = std::ranges::find(object.properties, name, &Property::name);
  if (listed != object.properties.end()) return listed->term;
  for (const ObjectShape::Names& names : object.others)
    if (has_name(names.language, name)) return names.term;
  return Terms::kNever;
}

ObjectShape::Property& ShapeAlgebra::listed(ObjectShape& object, const std::string& name) {
  arena_->spend_steps(object.properties.size() / kNamesPerStep);
  const auto found = std::ranges::find(object.properties, name, &Property::name);
  if (found != object.properties.end()) return *found;
  const Term term = term_of(object, name);
  object.properties.push_back({.name = name, .term = term});
  return object.properties.back();
}

void ShapeAlgebra::require(ObjectShape& object, std::span<const Document::Place> names, const Document& document) {
  for (const Document::Place name : names) {
    if (!arena_->has_steps()) return;
    listed(object, document.text(name)).is_required = true;
  }
}

bool ShapeAlgebra::is_possible(const ArrayShape& array) const {
  if (array.min > array.max) return false;
  for (size_t i = 0; i < array.prefix.size(); ++i)
    if (array.prefix[i] == Terms::kNever && array.min > i) return false;
  if (array.rest == Terms::kNever && array.min > array.prefix.size()) return false;
  return std::ranges::none_of(array.contains, [](const Contains& c) { return c.min > c.max; });
}

bool ShapeAlgebra::is_possible(const ObjectShape& object) const {
  if (object.min > object.max) return false;
  const auto is_required = [](const Property& p) { return p.is_required; };
  if (static_cast<uint32_t>(std::ranges::count_if(object.properties, is_required)) > object.max) return false;
  return std::ranges::none_of(object.properties,
                              [](const Property& p) { return p.is_required && p.term == Terms::kNever; });
}

ArrayShape ShapeAlgebra::both(const ArrayShape& a, const ArrayShape& b) {
  ArrayShape joined;
  const auto item = [](const ArrayShape& array, size_t i) {
    return i < array.prefix.size() ? array.prefix[i] : array.rest;
  };
  for (size_t i = 0; i < std::max(a.prefix.size(), b.prefix.size()); ++i)
    joined.prefix.push_back(terms_->all_of(item(a, i), item(b, i)));
  joined.rest = terms_->all_of(a.rest, b.rest);
  joined.min = std::max(a.min, b.min);
  joined.max = std::min(a.max, b.max);
  joined.contains = a.contains;
  joined.contains.insert(joined.contains.end(), b.contains.begin(), b.contains.end());
  joined.evaluated = a.evaluated;
  joined.evaluated.insert(joined.evaluated.end(), b.evaluated.begin(), b.evaluated.end());
  joined.is_unique = a.is_unique || b.is_unique;
  joined.n_evaluated = std::max(a.n_evaluated, b.n_evaluated);
  return joined;
}

std::optional<ObjectShape> ShapeAlgebra::both(const ObjectShape& a, const ObjectShape& b) {
  ObjectShape joined;
  const auto add = [&](const ObjectShape& from, const ObjectShape& other) {
    for (const Property& property : from.properties) {
      arena_->spend_steps((joined.properties.size() + other.properties.size()) / kNamesPerStep);
      if (!arena_->has_steps()) return;
      if (std::ranges::find(joined.properties, property.name, &Property::name) != joined.properties.end()) continue;
      const auto listed = std::ranges::find(other.properties, property.name, &Property::name);
      const bool is_required = property.is_required || (listed != other.properties.end() && listed->is_required);
      joined.properties.push_back(
          {property.name, terms_->all_of(property.term, term_of(other, property.name)), is_required});
    }
  };
  add(a, b);
  add(b, a);
  for (const ObjectShape::Names& x : a.others)
    for (const ObjectShape::Names& y : b.others) {
      const Expression language = arena_->all_of(x.language, y.language);
      if (!is_empty(language)) joined.others.push_back({language, terms_->all_of(x.term, y.term)});
    }
  if (joined.others.size() > kMaxShapes) return std::nullopt;
  joined.some = a.some;
  joined.some.insert(joined.some.end(), b.some.begin(), b.some.end());
  joined.min = std::max(a.min, b.min);
  joined.max = std::min(a.max, b.max);
  joined.evaluated = arena_->any_of(a.evaluated, b.evaluated);
  return joined;
}

// Nothing if no value has both shapes.
std::optional<Shape> ShapeAlgebra::both(const Shape& a, const Shape& b) {
  if (a.type != b.type) return std::nullopt;
  switch (a.type) {
    case ShapeType::number:
    case ShapeType::string: {
      Shape joined = {.type = a.type,
                      .text = both_texts(a.text, b.text),
                      .is_integer = a.is_integer || b.is_integer,
                      .written = arena_->all_of(a.written, b.written),
                      .factors = a.factors};
      joined.factors.insert(joined.factors.end(), b.factors.begin(), b.factors.end());
      if (is_empty(joined)) return std::nullopt;
      return joined;
    }
    case ShapeType::array: {
      ArrayShape joined = both(*a.array, *b.array);
      if (!is_possible(joined)) return std::nullopt;
      return shape_of(std::move(joined));
    }
    case ShapeType::object: {
      auto joined = both(*a.object, *b.object);
      if (!joined || !is_possible(*joined)) return std::nullopt;
      return shape_of(std::move(*joined));
    }
    default:
      return a;
  }
}

std::optional<Shapes> ShapeAlgebra::both(const Shapes& a, const Shapes& b) {
  Shapes joined;
  for (const Shape& x : a)
    for (const Shape& y : b)
      if (auto shape = both(x, y)) joined.push_back(std::move(*shape));
  return either(joined, {});
}

// The texts of all shapes of numbers are one, and so are those of strings.
std::optional<Shapes> ShapeAlgebra::either(const Shapes& a, const Shapes& b) {
  struct Texts {
    std::vector<Expression> texts, written;
  };
  Shapes joined;
  std::vector<Texts> texts;  // of the joined shapes
  for (const Shapes* shapes : {&a, &b})
    for (const Shape& shape : *shapes) {
      const auto same = std::ranges::find(joined, shape.type, &Shape::type);
      const bool is_container = shape.type == ShapeType::array || shape.type == ShapeType::object;
      const auto is_alike = [](const Shape& x, const Shape& y) {
        return x.factors.empty() && y.factors.empty() && x.is_integer == y.is_integer;
      };
      if (same == joined.end() || is_container || !is_alike(*same, shape)) {
        joined.push_back(shape);
        texts.push_back({{shape.text}, {shape.written}});
        if (joined.size() > kMaxShapes) return std::nullopt;
      } else {
        Texts& more = texts[to_size(same - joined.begin())];
        more.texts.push_back(shape.text);
        more.written.push_back(shape.written);
      }
    }
  for (size_t i = 0; i < joined.size(); ++i) {
    joined[i].text = arena_->any_of(std::move(texts[i].texts));
    joined[i].written = arena_->any_of(std::move(texts[i].written));
  }
  return joined;
}

bool ShapeAlgebra::are_disjoint(const Shapes& a, const Shapes& b) {
  const auto joined = both(a, b);
  return joined && joined->empty();
}

// Arrays that break one condition each.
std::optional<Shapes> ShapeAlgebra::complement(const ArrayShape& array) {
  Shapes broken;
  if (array.is_unique) return std::nullopt;
  for (size_t i = 0; i < array.prefix.size(); ++i) {
    if (array.prefix[i] == Terms::kAlways) continue;
    if (broken.size() > kMaxShapes) return std::nullopt;
    ArrayShape other = {.prefix = std::vector<Term>(i, Terms::kAlways), .min = static_cast<uint32_t>(i + 1)};
    other.prefix.push_back(terms_->negation(array.prefix[i]));
    broken.push_back(shape_of(std::move(other)));
  }
  if (array.rest == Terms::kNever) {
    broken.push_back(shape_of(ArrayShape{.min = static_cast<uint32_t>(array.prefix.size() + 1)}));
  } else if (array.rest != Terms::kAlways) {
    if (!array.prefix.empty()) return std::nullopt;
    broken.push_back(shape_of(ArrayShape{.contains = {{.term = terms_->negation(array.rest), .min = 1}}}));
  }
  if (array.min > 0) broken.push_back(shape_of(ArrayShape{.max = array.min - 1}));
  if (array.max != kUnbounded) broken.push_back(shape_of(ArrayShape{.min = array.max + 1}));
  for (const Contains& contains : array.contains) {
    if (contains.min > 0)
      broken.push_back(shape_of(ArrayShape{.contains = {{.term = contains.term, .max = contains.min - 1}}}));
    if (contains.max != kUnbounded)
      broken.push_back(shape_of(ArrayShape{.contains = {{.term = contains.term, .min = contains.max + 1}}}));
  }
  return broken;
}

std::optional<Shapes> ShapeAlgebra::complement(const ObjectShape& object) {
  Shapes broken;
  const ObjectShape any = {.others = {{any_string_, Terms::kAlways}}};
  const auto add = [&](auto change) {
    ObjectShape other = any;
    change(other);
    broken.push_back(shape_of(std::move(other)));
  };
  for (const Property& property : object.properties) {
    if (broken.size() > kMaxShapes) return std::nullopt;
    if (property.is_required) add([&](ObjectShape& o) { o.properties = {{property.name, Terms::kNever, false}}; });
    if (property.term != Terms::kAlways)
      add([&](ObjectShape& o) { o.properties = {{property.name, terms_->negation(property.term), true}}; });
  }
  if (!object.some.empty()) {
    for (const ObjectShape::Names& some : object.some)
      add([&](ObjectShape& o) {
        o.others = {{some.language, terms_->negation(some.term)},
                    {arena_->all_of(any_string_, arena_->complement(some.language)), Terms::kAlways}};
      });
  }
  // Names outside of all languages may not be there.
  std::vector<Expression> languages;
  for (const ObjectShape::Names& names : object.others) languages.push_back(names.language);
  for (const Property& property : object.properties) languages.push_back(spelling_.text(property.name));
  std::vector<Expression> properties;
  for (const Property& property : object.properties) properties.push_back(spelling_.text(property.name));
  const Expression listed = arena_->any_of(std::move(properties));
  const auto add_some = [&](Expression names, Term term) {
    const Expression language = arena_->all_of(names, arena_->complement(listed));
    if (!is_empty(language)) add([&](ObjectShape& o) { o.some = {{language, term}}; });
  };
  for (const ObjectShape::Names& names : object.others)
    if (names.term != Terms::kAlways) add_some(names.language, terms_->negation(names.term));
  add_some(arena_->all_of(any_string_, arena_->complement(arena_->any_of(std::move(languages)))), Terms::kAlways);
  if (object.min > 0) add([&](ObjectShape& o) { o.max = object.min - 1; });
  if (object.max != kUnbounded) add([&](ObjectShape& o) { o.min = object.max + 1; });
  return broken;
}

std::optional<Shapes> ShapeAlgebra::complement(const Shape& shape) {
  Shapes others = everything();
  const auto same = std::ranges::find(others, shape.type, &Shape::type);
  std::optional<Shapes> broken = Shapes();
  switch (shape.type) {
    case ShapeType::number:
    case ShapeType::string: {
      const Expression text = arena_->all_of(same->text, arena_->complement(shape.text));
      if (!is_empty(text)) broken->push_back({.type = shape.type, .text = text});
      if (shape.is_integer)
        broken->push_back(
            {.type = shape.type, .text = arena_->all_of(same->text, arena_->complement(numbers_.integers()))});
      for (const Factor& factor : shape.factors)
        broken->push_back({.type = shape.type, .text = same->text, .factors = {{factor.value, !factor.is_excluded}}});
      break;
    }
    case ShapeType::array:
      broken = complement(*shape.array);
      break;
    case ShapeType::object:
      broken = complement(*shape.object);
      break;
    default:
      break;
  }
  if (!broken) return std::nullopt;
  others.erase(same);
  return either(others, *broken);
}

std::optional<Shapes> ShapeAlgebra::complement(const Shapes& shapes) {
  std::optional<Shapes> rest = everything();
  for (const Shape& shape : shapes) {
    const auto other = complement(shape);
    if (!other) return std::nullopt;
    rest = both(*rest, *other);
    if (!rest) return std::nullopt;
  }
  return rest;
}

}  // namespace tessera::text::grammar
