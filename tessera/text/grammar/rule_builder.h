// Adds states and edges to a rule. The marks of a model's calls may contain control tokens: such a token becomes an
// edge that only its id can take.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/text/grammar/rules.h"

namespace tessera::text::grammar {

/// The texts that end where the first of some marks begins: none is in the text, nor in the text and a part of a mark.
Expression text_before(ExpressionArena& arena, std::span<const std::string> marks);
Expression text_before(ExpressionArena& arena, const std::string& mark);
/// The texts that contain one of some texts.
Expression texts_with(ExpressionArena& arena, std::span<const std::string> parts);

class RuleBuilder {
 public:
  static constexpr uint32_t kMaxSpace = 16;  // line breaks and blanks beside a mark

  /// find_control: the id of a token by its text, if only its id stands for it in a text. All must outlive this.
  RuleBuilder(ExpressionArena& arena, Rules& rules, RuleId rule, const FindToken& find_control)
      : arena_(arena), rules_(rules), rule_(rule), find_control_(find_control) {}

  RuleId rule() const { return rule_; }
  RuleState start() const { return rules_.rule(rule_).start; }
  RuleState end() const { return rules_.rule(rule_).end; }
  RuleState add_state() { return rules_.add_state(rule_); }

  void add_lexeme(RuleState from, Expression lexeme, RuleState to) {
    rules_.add_edge(from, {.kind = Edge::Kind::lexeme, .value = lexeme, .target = to});
  }
  void add_step(RuleState from, RuleState to) { add_lexeme(from, ExpressionArena::kEmpty, to); }
  void add_call(RuleState from, RuleId called, RuleState to) {
    rules_.add_edge(from, {.kind = Edge::Kind::call, .value = called, .target = to});
  }
  void add_tokens(RuleState from, TokenSet set, RuleState to) {
    rules_.add_edge(from, {.kind = Edge::Kind::tokens, .value = rules_.add_token_set(std::move(set)), .target = to});
  }

  // These return the state after a text.
  RuleState after_lexeme(RuleState from, Expression lexeme);
  RuleState after_call(RuleState from, RuleId called);
  RuleState after_mark(RuleState from, std::string_view mark);
  RuleState after_space(RuleState from) { return after_lexeme(from, space()); }
  /// A text, and the mark that ends it.
  RuleState after_text_and_mark(RuleState from, const std::string& mark) {
    return after_mark(after_lexeme(from, text_before(arena_, mark)), mark);
  }

  /// Line breaks and blanks, perhaps none.
  Expression space() { return arena_.repeat(blanks(), 0, kMaxSpace); }
  Expression any_space() { return arena_.repeat(blanks(), 0, kUnbounded); }
  bool has_control(std::string_view mark) const { return next_control(mark).second.has_value(); }
  /// Adds the control tokens of a mark to a list.
  void add_controls(std::string_view mark, std::vector<int32_t>& ids) const;

 private:
  Expression blanks();
  size_t control_size(std::string_view text) const;
  std::pair<size_t, std::optional<int32_t>> next_control(std::string_view text) const;

  ExpressionArena& arena_;
  Rules& rules_;
  RuleId rule_;
  const FindToken& find_control_;
};

}  // namespace tessera::text::grammar
