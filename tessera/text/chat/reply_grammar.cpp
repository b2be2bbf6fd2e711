#include "tessera/text/chat/reply_grammar.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "tessera/text/chat/reply_marks.h"

namespace tessera::text {
namespace {

using grammar::ByteSet;
using grammar::Edge;
using grammar::Expression;
using grammar::ExpressionArena;
using grammar::RuleId;
using grammar::Rules;
using grammar::RuleState;

constexpr uint32_t kMaxSpace = 16;  // line breaks and blanks after a mark
constexpr size_t kMaxControlBytes = 64;
constexpr std::string_view kHarmonyAnswer = "<|channel|>final<|message|>";

/// Adds edges to one rule.
class ReplyRule {
 public:
  ReplyRule(ExpressionArena& arena, Rules& rules, RuleId rule, const grammar::FindToken& find_control)
      : arena_(arena), rules_(rules), rule_(rule), find_control_(find_control) {}

  RuleState start() const { return rules_.rule(rule_).start; }
  RuleState end() const { return rules_.rule(rule_).end; }

  void add_lexeme(RuleState from, Expression lexeme, RuleState to) {
    rules_.add_edge(from, {.kind = Edge::Kind::lexeme, .value = lexeme, .target = to});
  }

  void add_step(RuleState from, RuleState to) { add_lexeme(from, ExpressionArena::kEmpty, to); }

  void add_call(RuleState from, RuleId rule, RuleState to) {
    rules_.add_edge(from, {.kind = Edge::Kind::call, .value = rule, .target = to});
  }

  /// Returns the state after a mark, in which control tokens may stand.
  RuleState after_mark(RuleState from, std::string_view mark) {
    while (!mark.empty()) {
      const auto [n_bytes, token] = next_control(mark);
      const RuleState to = rules_.add_state(rule_);
      if (n_bytes == 0) {
        rules_.add_edge(from, {.kind = Edge::Kind::tokens, .value = rules_.add_token_set({{*token}}), .target = to});
        mark.remove_prefix(control_size(mark));
      } else {
        add_lexeme(from, arena_.literal(mark.substr(0, n_bytes)), to);
        mark.remove_prefix(n_bytes);
      }
      from = to;
    }
    return from;
  }

  /// Returns the state after a text that ends with its first mark, and after the space that follows.
  RuleState after_text_and_mark(RuleState from, std::string_view mark) {
    const Expression any = ExpressionArena::kAnything;
    const Expression has_mark = arena_.concat(any, arena_.concat(arena_.literal(mark), any));
    const RuleState at_mark = rules_.add_state(rule_);
    add_lexeme(from, arena_.complement(has_mark), at_mark);
    return after_space(after_mark(at_mark, mark));
  }

  RuleState after_space(RuleState from) {
    ByteSet space;
    for (const char c : std::string_view(" \t\r\n")) space.add(static_cast<uint8_t>(c));
    const RuleState to = rules_.add_state(rule_);
    add_lexeme(from, arena_.repeat(arena_.bytes(space), 0, kMaxSpace), to);
    return to;
  }

 private:
  // The length of the control token at the start of a text, 0 if there is none.
  size_t control_size(std::string_view text) const {
    for (size_t n = std::min(text.size(), kMaxControlBytes); n > 0; --n)
      if (find_control_ && find_control_(text.substr(0, n))) return n;
    return 0;
  }

  // The bytes before the first control token of a text, and that token.
  std::pair<size_t, std::optional<int32_t>> next_control(std::string_view text) const {
    for (size_t i = 0; i < text.size(); ++i)
      if (const size_t n = control_size(text.substr(i)); n > 0) return {i, find_control_(text.substr(i, n))};
    return {text.size(), std::nullopt};
  }

  ExpressionArena& arena_;
  Rules& rules_;
  RuleId rule_;
  const grammar::FindToken& find_control_;
};

bool is_open(const ReplyFamily& family, std::string_view prompt_tail) {
  if (family.reasoning_begin.empty()) return false;
  const size_t begin = prompt_tail.rfind(family.reasoning_begin);
  return begin != std::string_view::npos && prompt_tail.find(family.reasoning_end, begin) == std::string_view::npos;
}

}  // namespace

grammar::GrammarResult reply_grammar(const ReplyFamily& family, const grammar::Grammar& answer,
                                     std::string_view prompt_tail, bool may_reason,
                                     const grammar::FindToken& find_control) {
  const bool has_reasoning = !family.reasoning_begin.empty() && !family.reasoning_end.empty();
  const bool is_harmony = family.shape == ReplyShape::harmony;
  return grammar::Grammar::around(answer, [&](ExpressionArena& arena, Rules& rules, RuleId answer_rule) {
    const RuleId root = rules.add_rule("reply");
    ReplyRule rule(arena, rules, root, find_control);
    const RuleState begin = rules.add_state(root), before_answer = rules.add_state(root);
    const auto add_reasoning = [&](RuleState inside) {
      RuleState after = rule.after_text_and_mark(inside, family.reasoning_end);
      if (is_harmony) after = rule.after_mark(after, kHarmonyStart);
      rule.add_step(after, family.has_many_reasonings ? begin : before_answer);
    };
    if (has_reasoning && is_open(family, prompt_tail)) {
      add_reasoning(rule.start());
    } else {
      rule.add_step(rule.start(), begin);
    }
    if (has_reasoning && may_reason) add_reasoning(rule.after_mark(begin, family.reasoning_begin));
    rule.add_step(begin, before_answer);
    if (is_harmony) {
      rule.add_call(rule.after_mark(before_answer, kHarmonyAnswer), answer_rule, rule.end());
      return root;
    }
    rule.add_call(before_answer, answer_rule, rule.end());
    for (const std::string& mark : family.content_begin)
      rule.add_call(rule.after_mark(before_answer, mark), answer_rule, rule.end());
    return root;
  });
}

}  // namespace tessera::text
