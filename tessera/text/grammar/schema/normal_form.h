// Schemas as unions of shapes: each keyword narrows the shapes of the types that it speaks of.
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/text/grammar/grammar_error.h"
#include "tessera/text/grammar/schema/references.h"
#include "tessera/text/grammar/schema/shapes.h"

namespace tessera::text::grammar {

/// Settings of how a schema is read.
struct SchemaOptions {
  bool enforces_formats = true;
};

class NormalForms {
 public:
  /// All must outlive this.
  NormalForms(const Document& document, const References& references, ShapeAlgebra& algebra,
              const SchemaOptions& options);

  /// The shapes of a term. Errors: a keyword that cannot be enforced, or a schema that is not valid.
  std::expected<const Shapes*, GrammarError> of(Term root);

  /// An error of a term, with the pointer to it if it has none yet.
  GrammarError at(Term term, GrammarError error) const;

 private:
  using Place = Document::Place;
  using Outcome = std::expected<Shapes, GrammarError>;

  GrammarError refusal(Place place, std::string_view keyword, std::string message) const;

  std::expected<std::vector<Term>, GrammarError> needs_of_schema(Place place);
  Outcome compute(Term term);
  Outcome of_schema(Place place);

  Outcome own_shapes(Place place);
  std::expected<void, GrammarError> narrow_by_types(Place place, Shapes& shapes);
  std::expected<void, GrammarError> narrow_numbers(Place place, Shape& shape);
  std::expected<void, GrammarError> narrow_strings(Place place, Shape& shape);
  std::expected<ArrayShape, GrammarError> array_of(Place place);
  std::expected<ObjectShape, GrammarError> object_of(Place place);
  Outcome values_of(Place place, Shapes shapes);
  Shape shape_of_value(Place place);
  Outcome with_dependencies(Place place, Shapes shapes);
  std::optional<Shapes> any_of(Place list);
  Outcome one_of(Place place, Place list, const Shapes& shapes);
  Outcome if_then_else(Place place, Place condition, const Shapes& shapes);
  Expression names_of(Place place) const;
  Term condition(Place schema) const;
  const Shapes& known_always() const;
  Outcome with_unevaluated(Place place, Shapes shapes);

  Place keyword(Place place, std::string_view name) const;
  std::expected<uint32_t, GrammarError> count(Place place, std::string_view name, uint32_t fallback);
  std::expected<Expression, GrammarError> pattern(Place place, std::string_view name, std::string_view source);
  const Shapes& known(Place place) const { return *shapes_.at(algebra_->terms().schema(place)); }

  const Document* document_;
  const References* references_;
  ShapeAlgebra* algebra_;
  SchemaOptions options_;
  std::map<Term, std::unique_ptr<const Shapes>> shapes_;
};

}  // namespace tessera::text::grammar
