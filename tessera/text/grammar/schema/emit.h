// Rules of a grammar for the texts of a schema's values: JSON, or literals of another language.
#pragma once

#include <expected>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/text/grammar/rule_builder.h"
#include "tessera/text/grammar/schema/normal_form.h"
#include "tessera/text/grammar/schema/value_syntax.h"

namespace tessera::text::grammar {

class SchemaEmitter {
 public:
  static constexpr size_t kMaxStates = size_t{1} << 20, kMaxEdges = size_t{1} << 21;

  /// All must outlive this.
  SchemaEmitter(NormalForms& forms, ShapeAlgebra& algebra, Rules& rules, const ValueSyntax& syntax = kJsonSyntax,
                const FindToken& find_control = kNoControls);

  /// Adds the rule of a term and those that it uses. Errors: those of NormalForms::of(); what no rule can say.
  std::expected<RuleId, GrammarError> emit(Term term);
  /// The same for the values that are objects, with another syntax of these objects, but not of those inside of them.
  std::expected<RuleId, GrammarError> emit_members(Term term, const MemberSyntax& syntax);
  /// The same for objects whose members stand between marks. json: of the values that are no strings.
  std::expected<RuleId, GrammarError> emit_members(Term term, const TaggedMembers& syntax, SchemaEmitter& json);

 private:
  using Done = std::expected<void, GrammarError>;
  class Members;
  enum class Part : uint8_t { all, without_strings };

  /// An error of a keyword, whose pointer is added later.
  static GrammarError refused(std::string keyword, std::string message);
  RuleId rule_of(Term term, Part part = Part::all);
  Done emit_open();
  Done emit_rule(Term term, Part part, RuleId rule);
  std::expected<RuleId, GrammarError> emit_objects(Term term, const MemberSyntax& syntax, const TaggedMembers* tagged);
  Expression text_of(const Shape& shape);
  Done emit_array(const ArrayShape& array, RuleId rule);
  Done emit_object(const ObjectShape& object, RuleId rule, const MemberSyntax& syntax, const TaggedMembers* tagged);
  std::expected<bool, GrammarError> is_possible(Term term);
  std::expected<Expression, GrammarError> scalar_texts(Term term);
  class Items;

  void add_lexeme(RuleState from, Expression lexeme, RuleState to, uint32_t adds = 0, bool needs_min = false);
  void add_value(RuleState from, Term term, RuleState to, uint32_t adds = 0);
  Expression string_text(Expression text);
  bool has_control_quotes() const;
  Expression symbol(std::string_view text);
  Expression make_symbol(std::string_view text);

  NormalForms* forms_;
  ShapeAlgebra* algebra_;
  ExpressionArena* arena_;
  Rules* rules_;
  const ValueSyntax* syntax_;
  const FindToken* find_control_;
  Expression string_texts_;  // the texts that strings may have
  SchemaEmitter* json_ = nullptr;
  std::map<std::string, Expression, std::less<>> symbols_;
  std::map<std::pair<Term, Part>, RuleId> ids_;
  std::vector<std::pair<Term, Part>> open_;
};

}  // namespace tessera::text::grammar
