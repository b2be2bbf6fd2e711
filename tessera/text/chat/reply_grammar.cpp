#include "tessera/text/chat/reply_grammar.h"

#include <optional>
#include <vector>

#include "tessera/text/chat/call_grammar.h"
#include "tessera/text/chat/reply_marks.h"
#include "tessera/text/grammar/rule_builder.h"

namespace tessera::text {
namespace {

using grammar::Expression;
using grammar::ExpressionArena;
using grammar::GrammarError;
using grammar::RuleBuilder;
using grammar::RuleId;
using grammar::RuleState;

constexpr std::string_view kFinalHeader = "<|channel|>final<|message|>";
constexpr std::string_view kCommentaryHeader = "<|channel|>commentary<|message|>";
constexpr std::string_view kHarmonyEnd = "<|end|>";

bool is_open(const ReplyFamily& family, std::string_view prompt_tail) {
  if (family.reasoning_begin.empty()) return false;
  const size_t begin = prompt_tail.rfind(family.reasoning_begin);
  return begin != std::string_view::npos && prompt_tail.find(family.reasoning_end, begin) == std::string_view::npos;
}

// The rule of a reply. Its states are places in the reply.
class ReplyRules {
 public:
  using Done = CallGrammar::Done;

  ReplyRules(const ReplyFamily& family, const ReplyConstraint& constraint, const grammar::GrammarParts& parts,
             const grammar::FindToken& find_control)
      : family_(family),
        constraint_(constraint),
        parts_(parts),
        is_harmony_(family.shape == ReplyShape::harmony),
        has_answer_(constraint.answer != nullptr),
        answer_(parts.rules.start()),
        rule_(parts.expressions, parts.rules, parts.rules.add_rule("reply"), find_control),
        calls_(family, constraint.tools, constraint.may_call_again, parts, find_control),
        begin_(rule_.add_state()),
        after_reasoning_(rule_.add_state()) {}

  std::expected<RuleId, GrammarError> add(std::string_view prompt_tail, bool may_reason) {
    if (has_calls())
      if (const Done done = calls_.add_tools(); !done) return std::unexpected(done.error());
    add_reasoning(prompt_tail, may_reason);
    if (is_harmony_)
      add_messages();
    else if (family_.has_recipients && has_calls())
      add_recipients(prompt_tail);
    else
      add_answer_and_calls();
    return rule_.rule();
  }

  const CallGrammar& calls() const { return calls_; }

 private:
  bool has_calls() const { return !constraint_.tools.empty() && family_.shape != ReplyShape::text; }
  bool has_text() const { return !has_answer_ && !constraint_.must_call; }

  void add_reasoning(std::string_view prompt_tail, bool may_reason) {
    const bool has_reasoning = !family_.reasoning_begin.empty() && !family_.reasoning_end.empty();
    const auto add_from = [&](RuleState inside) {
      RuleState after = rule_.after_mark(after_text(inside, {family_.reasoning_end}), family_.reasoning_end);
      after = is_harmony_ ? rule_.after_mark(after, kHarmonyStart) : rule_.after_space(after);
      rule_.add_step(after, family_.has_many_reasonings ? begin_ : after_reasoning_);
    };
    if (has_reasoning && is_open(family_, prompt_tail))
      add_from(rule_.start());
    else
      rule_.add_step(rule_.start(), begin_);
    if (has_reasoning && may_reason) add_from(rule_.after_mark(begin_, family_.reasoning_begin));
    rule_.add_step(begin_, after_reasoning_);
  }

  // The place after a text before one of some marks. Control tokens that are part of no mark belong to it.
  RuleState after_text(RuleState from, const std::vector<std::string>& marks,
                       Expression excluded = ExpressionArena::kNothing) {
    ExpressionArena& arena = parts_.expressions;
    const Expression text = grammar::text_before(arena, marks);
    const Expression first = arena.all_of(text, arena.complement(excluded));
    const RuleState after = rule_.after_lexeme(from, excluded == ExpressionArena::kNothing ? text : first);
    grammar::TokenSet others = {.is_complement = true, .has_no_text = true};
    for (const std::string& mark : marks) rule_.add_controls(mark, others.ids);
    const RuleState again = rule_.add_state();
    rule_.add_tokens(after, std::move(others), again);
    rule_.add_lexeme(again, text, after);
    return after;
  }

  // An answer of the grammar, perhaps after a mark; or calls, with text around them if it is free.
  void add_answer_and_calls() {
    if (has_answer_ && !constraint_.must_call) {
      rule_.add_call(after_reasoning_, answer_, rule_.end());
      for (const std::string& mark : family_.content_begin)
        rule_.add_call(rule_.after_mark(after_reasoning_, mark), answer_, rule_.end());
    }
    if (!has_calls()) return;
    const RuleId calls = calls_.marked_calls();
    const RuleState after_calls = rule_.after_call(after_reasoning_, calls);
    rule_.add_step(after_calls, rule_.end());
    if (const auto bare = calls_.bare_calls()) rule_.add_call(after_reasoning_, *bare, rule_.end());
    if (!has_text()) {
      if (constraint_.may_call_again) rule_.add_call(rule_.after_space(after_calls), calls, after_calls);
      return;
    }
    const std::vector<std::string> marks = calls_.begin_marks();
    const RuleState text = after_text(after_reasoning_, marks, calls_.texts_like_bare_calls());
    rule_.add_call(text, calls, after_calls);
    rule_.add_step(text, rule_.end());
    const RuleState later_text = after_text(after_calls, marks);
    rule_.add_step(later_text, rule_.end());
    if (constraint_.may_call_again) rule_.add_call(later_text, calls, after_calls);
  }

  // Texts for the reader and calls, each after a mark with the name of the recipient.
  void add_recipients(std::string_view prompt_tail) {
    const RuleState addressed = rule_.add_state();
    const RuleState marked = rule_.after_mark(after_reasoning_, family_.call_begin);
    rule_.add_step(prompt_tail.ends_with(family_.call_begin) ? after_reasoning_ : marked, addressed);
    const RuleState after_call = rule_.after_call(addressed, calls_.addressed_call());
    rule_.add_step(after_call, rule_.end());
    std::vector<std::string> marks = {family_.call_begin + std::string(kContentRecipient) + family_.name_end};
    for (const ReplyTool& tool : constraint_.tools) marks.push_back(family_.call_begin + tool.name + family_.name_end);
    const RuleState content = rule_.after_mark(addressed, std::string(kContentRecipient) + family_.name_end);
    if (has_answer_ && !constraint_.must_call) rule_.add_call(content, answer_, rule_.end());
    const RuleState again = rule_.after_mark(after_call, family_.call_begin);
    if (constraint_.may_call_again) rule_.add_step(again, addressed);
    if (!has_text()) return;
    const RuleState text = after_text(content, marks);
    rule_.add_step(text, rule_.end());
    rule_.add_step(rule_.after_mark(text, family_.call_begin), addressed);
  }

  // The messages of harmony. The prompt has begun the first one.
  void add_messages() {
    if (has_answer_ && !constraint_.must_call)
      rule_.add_call(rule_.after_mark(after_reasoning_, kFinalHeader), answer_, rule_.end());
    if (!has_calls()) return;
    rule_.add_call(after_reasoning_, calls_.addressed_call(), rule_.end());
    const auto add_message = [&](std::string_view header) {
      return rule_.after_lexeme(rule_.after_mark(after_reasoning_, header),
                                grammar::text_before(parts_.expressions, std::string(kHarmonyEnd)));
    };
    if (has_text()) rule_.add_step(add_message(kFinalHeader), rule_.end());
    const RuleState next = rule_.after_mark(add_message(kCommentaryHeader), kHarmonyEnd);
    rule_.add_step(rule_.after_mark(next, kHarmonyStart), begin_);
  }

  const ReplyFamily& family_;
  const ReplyConstraint& constraint_;
  grammar::GrammarParts parts_;
  bool is_harmony_;
  bool has_answer_;
  RuleId answer_;
  RuleBuilder rule_;
  CallGrammar calls_;
  RuleState begin_;
  RuleState after_reasoning_;
};

}  // namespace

grammar::GrammarResult reply_grammar(const ReplyFamily& family, const ReplyConstraint& constraint,
                                     std::string_view prompt_tail, bool may_reason,
                                     const grammar::FindToken& find_control) {
  std::optional<ReplyRules> rules;
  auto made = grammar::Grammar::from_rules(constraint.answer, [&](grammar::GrammarParts& parts) {
    rules.emplace(family, constraint, parts, find_control);
    return rules->add(prompt_tail, may_reason);
  });
  if (!made) return made;
  if (const std::string* tool = rules->calls().tool_without_call((*made)->rules()))
    return std::unexpected(
        GrammarError{.message = "no arguments satisfy its schema", .is_of_schema = false, .tool = *tool});
  return made;
}

}  // namespace tessera::text
