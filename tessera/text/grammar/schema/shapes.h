// The values that a schema allows, as a union of shapes. A shape has one type; texts of numbers and strings are exact
// languages, and the values inside of arrays and objects are terms, which are looked at later. Shapes can be combined:
// both, either, none of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/text/grammar/json_spelling.h"
#include "tessera/text/grammar/lexeme_states.h"
#include "tessera/text/grammar/number_language.h"
#include "tessera/text/grammar/schema/document.h"

namespace tessera::text::grammar {

/// A condition on a value: a schema, all of some terms, or the negation of one. Equal terms are one number.
using Term = uint32_t;

class Terms {
 public:
  static constexpr Term kAlways = 0, kNever = 1;
  static constexpr size_t kMaxTerms = 200'000;

  enum class Kind : uint8_t { always, never, schema, value, all, negation };
  struct Node {
    Kind kind;
    Document::Place place = 0;  // of a schema, or of a value that is the only one
    std::vector<Term> parts{};  // of all and negation
    auto operator<=>(const Node&) const = default;
  };

  Terms();

  Term schema(Document::Place place) { return add({.kind = Kind::schema, .place = place}); }
  Term value(Document::Place place) { return add({.kind = Kind::value, .place = place}); }
  Term all_of(std::span<const Term> terms);
  Term all_of(Term a, Term b);
  Term negation(Term term);

  const Node& node(Term term) const { return *nodes_[term]; }
  size_t size() const { return nodes_.size(); }
  bool overflowed() const { return nodes_.size() > kMaxTerms; }

 private:
  Term add(Node node);

  std::map<Node, Term> numbers_;
  std::vector<const Node*> nodes_;
};

enum class ShapeType : uint8_t { null, false_, true_, number, string, array, object };

/// A number of items that fulfil a term.
struct Contains {
  Term term;
  uint32_t min = 0, max = kUnbounded;
};

struct ArrayShape {
  std::vector<Term> prefix{};
  Term rest = Terms::kAlways;  // of the items after the prefix
  uint32_t min = 0, max = kUnbounded;
  std::vector<Contains> contains{};
  bool is_unique = false;
  size_t n_evaluated = 0;         // items that a keyword looked at, for unevaluatedItems; SIZE_MAX: all
  std::vector<Term> evaluated{};  // so are items that fulfil one of these
};

/// Members by name: those listed, and all others by languages of names that have no name in common.
struct ObjectShape {
  struct Property {
    std::string name;
    Term term;
    bool is_required = false;
  };
  struct Names {
    Expression language;
    Term term;
  };
  std::vector<Property> properties{};
  std::vector<Names> others{};
  std::vector<Names> some{};  // for each, at least one member with such a name and value
  uint32_t min = 0, max = kUnbounded;
  Expression evaluated = ExpressionArena::kNothing;  // names that a keyword looked at, for unevaluatedProperties
};

/// A condition on numbers: to be a multiple of a factor, or not to be one.
struct Factor {
  Decimal value;
  bool is_excluded = false;
};

struct Shape {
  ShapeType type;
  Expression text = ExpressionArena::kNothing;  // of a number; of a string the text inside the quotes
  bool is_integer = false;                      // of a number
  // The texts of a number that are written if there are any: a constant is written as in the schema,
  // or as an integer.
  Expression written = ExpressionArena::kAnything;
  std::vector<Factor> factors{};  // of a number
  std::shared_ptr<const ArrayShape> array{};
  std::shared_ptr<const ObjectShape> object{};
};

using Shapes = std::vector<Shape>;

class ShapeAlgebra {
 public:
  static constexpr size_t kMaxShapes = 64;

  ShapeAlgebra(ExpressionArena& arena, LexemeStates& states, Terms& terms, const JsonSpelling& spelling);

  ExpressionArena& arena() { return *arena_; }
  Terms& terms() { return *terms_; }
  JsonSpelling& spelling() { return spelling_; }
  const NumberLanguage& numbers() const { return numbers_; }

  /// A shape for each type, without conditions.
  Shapes everything();
  /// All texts inside the quotes of a string.
  Expression any_string() const { return any_string_; }
  /// The texts that are in both of two languages of texts inside quotes.
  Expression both_texts(Expression a, Expression b) const;
  /// The integers among texts of numbers, written as the writing wants them.
  Expression integers_of(Expression numbers);
  /// Whether no number or string has the shape.
  bool is_empty(const Shape& shape);
  /// Whether a language of JSON values that are no containers has at least n of them.
  bool has_values(Expression texts, uint32_t n);
  bool is_empty(Expression expression) { return states_->state_of(expression) == LexemeStates::kDead; }

  /// Nothing if the result has more than kMaxShapes, or cannot be a union of shapes.
  std::optional<Shapes> both(const Shapes& a, const Shapes& b);
  std::optional<Shapes> either(const Shapes& a, const Shapes& b);
  std::optional<Shapes> complement(const Shapes& shapes);

  /// Whether no value has both shapes, as far as that is plain.
  bool are_disjoint(const Shapes& a, const Shapes& b);

  /// The term of a member's name, and whether it is listed.
  Term term_of(const ObjectShape& object, const std::string& name);
  /// Makes a property listed, with the term that its name has.
  ObjectShape::Property& listed(ObjectShape& object, const std::string& name);
  /// Makes the properties with these names listed and required.
  void require(ObjectShape& object, std::span<const Document::Place> names, const Document& document);
  bool has_name(Expression language, std::string_view name);

  std::optional<Shape> both(const Shape& a, const Shape& b);
  std::optional<ObjectShape> both(const ObjectShape& a, const ObjectShape& b);
  ArrayShape both(const ArrayShape& a, const ArrayShape& b);

 private:
  std::optional<Shapes> complement(const Shape& shape);
  std::optional<Shapes> complement(const ArrayShape& array);
  std::optional<Shapes> complement(const ObjectShape& object);
  bool is_possible(const ArrayShape& array) const;
  bool is_possible(const ObjectShape& object) const;

  ExpressionArena* arena_;
  LexemeStates* states_;
  Terms* terms_;
  JsonSpelling spelling_;
  NumberLanguage numbers_;
  Expression any_string_, any_number_, any_integer_;
};

}  // namespace tessera::text::grammar
