// Rules of tool calls, in the form in which a reply family writes them.
#pragma once

#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/chat/reply_family.h"
#include "tessera/text/chat/tool_set.h"
#include "tessera/text/grammar/grammar.h"
#include "tessera/text/grammar/rule_builder.h"
#include "tessera/text/grammar/schema/value_syntax.h"

namespace tessera::text {

class CallGrammar {
 public:
  using Done = std::expected<void, grammar::GrammarError>;

  /// All arguments must outlive this. may_repeat: a reply may have several calls.
  CallGrammar(const ReplyFamily& family, std::span<const ReplyTool> tools, bool may_repeat,
              const grammar::GrammarParts& parts, const grammar::FindToken& find_control);

  /// Makes the rules of the arguments. Errors: those of add_arguments(), with the name of the tool; a name that the
  /// family cannot write, or that two tools have; more than kMaxReplyTools tools.
  Done add_tools();

  /// A tool without a call that the grammar allows; null if there is none. For a grammar that is finished.
  const std::string* tool_without_call(const grammar::Rules& rules) const;

  /// The marks with which calls begin. After these texts, nothing but a call can follow.
  std::vector<std::string> begin_marks() const;
  /// A call, or a section or list of calls, from the first mark on.
  grammar::RuleId marked_calls();

  /// Calls without a mark at the start of a reply, if the family has them, and the texts that begin so.
  std::optional<grammar::RuleId> bare_calls();
  grammar::Expression texts_like_bare_calls();

  /// Of a family with recipients: a call after the mark. Of harmony: a call after the start of a message.
  grammar::RuleId addressed_call();

 private:
  using RuleBuilder = grammar::RuleBuilder;
  using RuleId = grammar::RuleId;
  using RuleState = grammar::RuleState;
  using Expression = grammar::Expression;

  struct Tool {
    std::string name;
    RuleId arguments;
  };

  Done check_name(const std::string& name) const;
  std::expected<RuleId, grammar::GrammarError> arguments_of(const ReplyTool& tool) const;
  grammar::TaggedMembers tagged_members(const std::string& tool) const;
  grammar::TaggedTyping typing_of(const std::string& tool, std::string_view argument, ArgumentTyping typing) const;

  RuleBuilder new_rule(std::string name);
  RuleId inside_call();
  RuleId one_call();
  RuleState after_object(RuleBuilder& rule, RuleState from, const Tool& tool);
  RuleState after_name(RuleBuilder& rule, RuleState from, const Tool& tool);
  RuleState after_list(RuleBuilder& rule, RuleState from);
  RuleState after_calls(RuleBuilder& rule, RuleState from, RuleId call, std::string_view separator);
  RuleState after_break(RuleBuilder& rule, RuleState from);
  void add_code(RuleBuilder& rule);
  bool has_json_shape() const;

  Expression literal(std::string_view text) { return parts_.expressions.literal(text); }
  Expression space();
  Expression symbol(std::string_view text);
  Expression key(std::string_view name);
  Expression id_text();

  const ReplyFamily& family_;
  std::span<const ReplyTool> requested_;
  ToolSet tool_set_;
  bool may_repeat_;
  bool states_type_;  // a call may say that it is a function
  grammar::GrammarParts parts_;
  const grammar::FindToken& find_control_;
  std::vector<Tool> tools_;
  std::optional<RuleId> inside_call_;
};

}  // namespace tessera::text
