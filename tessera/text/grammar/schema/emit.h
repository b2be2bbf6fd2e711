// Rules of a grammar for the JSON texts of a schema's values.
#pragma once

#include <expected>
#include <map>
#include <span>
#include <vector>

#include "tessera/text/grammar/rules.h"
#include "tessera/text/grammar/schema/normal_form.h"

namespace tessera::text::grammar {

class SchemaEmitter {
 public:
  static constexpr size_t kMaxStates = size_t{1} << 20;

  /// All must outlive this.
  SchemaEmitter(NormalForms& forms, ShapeAlgebra& algebra, Rules& rules);

  /// Adds the rule of a term and those that it uses. Errors: those of NormalForms::of(); what no rule can say.
  std::expected<RuleId, GrammarError> emit(Term term);

 private:
  using Done = std::expected<void, GrammarError>;
  class Members;

  RuleId rule_of(Term term);
  Done emit_rule(Term term, RuleId rule);
  Expression text_of(const Shape& shape);
  Done emit_array(const ArrayShape& array, RuleId rule);
  Done emit_object(const ObjectShape& object, RuleId rule);
  std::expected<bool, GrammarError> is_possible(Term term);
  std::expected<Expression, GrammarError> scalar_texts(Term term);
  class Items;

  void add_lexeme(RuleState from, Expression lexeme, RuleState to, uint32_t adds = 0, bool needs_min = false);
  void add_value(RuleState from, Term term, RuleState to, uint32_t adds = 0);
  Expression symbol(std::string_view text);

  NormalForms* forms_;
  ShapeAlgebra* algebra_;
  ExpressionArena* arena_;
  Rules* rules_;
  std::map<Term, RuleId> ids_;
  std::vector<Term> open_;
};

}  // namespace tessera::text::grammar
