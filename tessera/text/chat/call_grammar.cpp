#include "tessera/text/chat/call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/text/chat/json_view.h"
#include "tessera/text/chat/reply_grammar.h"
#include "tessera/text/chat/reply_marks.h"
#include "tessera/text/grammar/schema/arguments.h"
#include "tessera/text/grammar/utf8_expression.h"
#include "tessera/text/json_quoted.h"

namespace tessera::text {
namespace {

using grammar::ArgumentsForm;
using grammar::Expression;
using grammar::ExpressionArena;
using grammar::GrammarError;
using grammar::TaggedMembers;
using grammar::TaggedTyping;

constexpr std::string_view kNoArguments = R"({"type":"object","properties":{},"additionalProperties":false})";
constexpr std::string_view kAnyArguments = R"({"type":"object"})";
constexpr std::string_view kFunctions = "functions.";
constexpr uint32_t kMaxIdBytes = 64;

// The mark without the bracket at its end, which is the first byte of the calls.
std::string_view without_bracket(std::string_view mark) {
  if (mark.ends_with('[') || mark.ends_with('{')) mark.remove_suffix(1);
  return mark;
}

}  // namespace

CallGrammar::CallGrammar(const ReplyFamily& family, std::span<const ReplyTool> tools, bool may_repeat,
                         const grammar::GrammarParts& parts, const grammar::FindToken& find_control)
    : family_(family),
      requested_(tools),
      tool_set_(tools),
      may_repeat_(may_repeat),
      states_type_(std::ranges::find(family.known_keys, "type") != family.known_keys.end()),
      parts_(parts),
      find_control_(find_control) {}

CallGrammar::Done CallGrammar::add_tools() {
  if (requested_.size() > kMaxReplyTools)
    return std::unexpected(GrammarError{.message = fmt::format("more than {} tools", kMaxReplyTools),
                                        .tool = requested_[kMaxReplyTools].name});
  std::set<std::string_view> names;
  for (const ReplyTool& tool : requested_) {
    if (!names.insert(tool.name).second)
      return std::unexpected(GrammarError{.message = "another tool has this name", .tool = tool.name});
    if (const Done done = check_name(tool.name); !done) return done;
    const auto arguments = arguments_of(tool);
    if (!arguments) {
      GrammarError error = arguments.error();
      error.tool = tool.name;
      return std::unexpected(std::move(error));
    }
    tools_.push_back({tool.name, *arguments});
  }
  if (family_.ignored_name.empty() || names.contains(family_.ignored_name)) return {};
  const auto arguments = arguments_of({.name = family_.ignored_name, .parameters = "", .is_strict = false});
  if (!arguments) return std::unexpected(arguments.error());
  tools_.push_back({family_.ignored_name, *arguments});
  return {};
}

// A name between marks must be read back as it is.
CallGrammar::Done CallGrammar::check_name(const std::string& name) const {
  const auto refused = [&](std::string_view reason) {
    return std::unexpected(GrammarError{.message = fmt::format("the name {}", reason), .tool = name});
  };
  if (name.empty()) return refused("is empty");
  if (has_json_shape()) return {};
  if (name.size() > kMaxCallNameBytes) return refused(fmt::format("has more than {} bytes", kMaxCallNameBytes));
  const auto is_plain = [](char c) {
    return static_cast<unsigned char>(c) >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.' || c == ':' || c == '/';
  };
  const bool is_function = family_.shape == ReplyShape::python || family_.shape == ReplyShape::gemma;
  if (!std::ranges::all_of(name, is_plain) || (is_function && name.find('/') != name.npos))
    return refused("has characters that the model's form of calls cannot write");
  return {};
}

const std::string* CallGrammar::tool_without_call(const grammar::Rules& rules) const {
  const auto found = std::ranges::find_if(tools_, [&](const Tool& tool) { return !rules.has_text(tool.arguments); });
  return found == tools_.end() ? nullptr : &found->name;
}

bool CallGrammar::has_json_shape() const {
  return family_.shape == ReplyShape::json || family_.shape == ReplyShape::key_json;
}

std::expected<grammar::RuleId, GrammarError> CallGrammar::arguments_of(const ReplyTool& tool) const {
  const std::string_view stated = tool.parameters.empty() ? kNoArguments : std::string_view(tool.parameters);
  const std::string_view schema = tool.is_strict ? stated : kAnyArguments;
  if (family_.shape == ReplyShape::tagged_args)
    return grammar::add_arguments(parts_, schema, tagged_members(tool.name), find_control_);
  const ArgumentsForm form = family_.shape == ReplyShape::python  ? ArgumentsForm::python
                             : family_.shape == ReplyShape::gemma ? ArgumentsForm::gemma
                                                                  : ArgumentsForm::json;
  return grammar::add_arguments(parts_, schema, form, find_control_);
}

TaggedMembers CallGrammar::tagged_members(const std::string& tool) const {
  TaggedMembers members;
  members.name_begin = family_.argument_begin;
  // A mark that states no type is of no use where others do.
  const bool states_types = std::ranges::any_of(
      family_.argument_name_ends, [](const ArgumentNameEnd& end) { return end.typing != ArgumentTyping::schema; });
  for (const ArgumentNameEnd& end : family_.argument_name_ends)
    if (states_types && end.typing == ArgumentTyping::schema)
      members.name_ends.push_back({end.mark});
    else
      members.name_ends.push_back({end.mark, [this, tool, typing = end.typing](std::string_view name) {
                                     return typing_of(tool, name, typing);
                                   }});
  const std::string line_break = family_.cuts_value_breaks ? "\n" : "";
  members.value_begin = family_.value_begin + line_break;
  members.value_end = line_break + family_.argument_end;
  members.reader_end = family_.nested_mark.empty() ? family_.argument_end : family_.nested_mark;
  if (family_.has_cdata) {
    members.quote_begin = kCdataBegin;
    members.quote_end = kCdataEnd;
  }
  members.has_space = family_.writes_breaks;
  members.has_value_space = family_.writes_breaks && !family_.value_begin.empty();
  return members;
}

// The types that ReplyParser looks for in the text of an argument.
TaggedTyping CallGrammar::typing_of(const std::string& tool, std::string_view argument, ArgumentTyping typing) const {
  if (typing == ArgumentTyping::text) return {};
  if (typing == ArgumentTyping::json) return {.may_be_string = false};
  const JsonTypes types = tool_set_.types(tool, argument);
  if (types.is_unknown())
    return {.null = true, .boolean = true, .number = true, .array = true, .object = true, .string = true};
  return {.null = types.has(JsonType::null),
          .boolean = types.has(JsonType::boolean),
          .number = types.has_number(),
          .array = types.has(JsonType::array),
          .object = types.has(JsonType::object)};
}

grammar::RuleBuilder CallGrammar::new_rule(std::string name) {
  return {parts_.expressions, parts_.rules, parts_.rules.add_rule(std::move(name)), find_control_};
}

Expression CallGrammar::space() {
  return grammar::JsonSpelling(parts_.expressions, {}).space(grammar::SpacePlace::separator);
}

Expression CallGrammar::symbol(std::string_view text) {
  return parts_.expressions.concat(std::vector{space(), literal(text), space()});
}

// The name of a member, and the colon after it.
Expression CallGrammar::key(std::string_view name) {
  return parts_.expressions.concat(literal(json_quoted(name)), symbol(":"));
}

Expression CallGrammar::id_text() {
  grammar::ByteSet bytes;
  for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:"))
    bytes.add(static_cast<uint8_t>(c));
  return parts_.expressions.repeat(parts_.expressions.bytes(bytes), 1, kMaxIdBytes);
}

// A line break or blanks, where the family writes some.
CallGrammar::RuleState CallGrammar::after_break(RuleBuilder& rule, RuleState from) {
  return family_.writes_breaks ? rule.after_space(from) : from;
}

// The JSON object of a call.
CallGrammar::RuleState CallGrammar::after_object(RuleBuilder& rule, RuleState from, const Tool& tool) {
  ExpressionArena& arena = parts_.expressions;
  const Expression open = arena.concat(literal("{"), space()), close = arena.concat(space(), literal("}"));
  const Expression name = literal(json_quoted(tool.name));
  if (family_.shape == ReplyShape::key_json) {
    const RuleState arguments = rule.after_lexeme(from, arena.concat(std::vector{open, name, symbol(":")}));
    return rule.after_lexeme(rule.after_call(arguments, tool.arguments), close);
  }
  // Models write the id, and the type of a call, before or after the rest.
  std::vector<Expression> before = {ExpressionArena::kEmpty}, after = {ExpressionArena::kEmpty};
  if (!family_.id_key.empty()) {
    const Expression id = arena.concat(std::vector{key(family_.id_key), literal("\""), id_text(), literal("\"")});
    before.push_back(arena.concat(id, symbol(",")));
    after.push_back(arena.concat(symbol(","), id));
  }
  if (states_type_) before.push_back(arena.concat(std::vector{key("type"), literal("\"function\""), symbol(",")}));
  const RuleState arguments = rule.after_lexeme(
      from, arena.concat(std::vector{open, arena.any_of(std::move(before)), key(family_.name_keys.front()), name,
                                     symbol(","), key(family_.arguments_key)}));
  return rule.after_lexeme(rule.after_call(arguments, tool.arguments),
                           arena.concat(arena.any_of(std::move(after)), close));
}

// A name between marks, and all marks before the arguments.
CallGrammar::RuleState CallGrammar::after_name(RuleBuilder& rule, RuleState from, const Tool& tool) {
  ExpressionArena& arena = parts_.expressions;
  if (!family_.id_end.empty()) from = rule.after_mark(rule.after_lexeme(from, id_text()), family_.id_end);
  if (family_.name_is_in_id) {
    grammar::ByteSet digits;
    for (char c = '0'; c <= '9'; ++c) digits.add(static_cast<uint8_t>(c));
    const Expression number = arena.repeat(arena.bytes(digits), 1, 6);
    from = rule.after_lexeme(from, arena.concat(literal(fmt::format("{}{}:", kFunctions, tool.name)), number));
  } else {
    from = rule.after_lexeme(from, literal(tool.name));
  }
  if (!family_.id_begin.empty()) from = rule.after_lexeme(rule.after_mark(from, family_.id_begin), id_text());
  return rule.after_mark(from, family_.name_end);
}

// A call of any tool, without the marks around it.
grammar::RuleId CallGrammar::inside_call() {
  if (inside_call_) return *inside_call_;
  RuleBuilder rule = new_rule("call");
  inside_call_ = rule.rule();
  for (const Tool& tool : tools_) {
    RuleState at = rule.start();
    if (has_json_shape()) {
      rule.add_step(after_object(rule, at, tool), rule.end());
      continue;
    }
    at = rule.after_call(after_name(rule, at, tool), tool.arguments);
    if (!family_.arguments_end.empty()) at = rule.after_mark(rule.after_space(at), family_.arguments_end);
    rule.add_step(at, rule.end());
  }
  return rule.rule();
}

// One call with its marks.
grammar::RuleId CallGrammar::one_call() {
  RuleBuilder rule = new_rule("marked call");
  const bool has_own_line = has_json_shape() || family_.shape == ReplyShape::python;
  RuleState at = rule.after_mark(rule.start(), family_.call_begin);
  if (has_own_line) at = after_break(rule, at);
  at = after_break(rule, rule.after_call(at, inside_call()));
  rule.add_step(rule.after_mark(at, family_.call_end), rule.end());
  return rule.rule();
}

// Calls in brackets.
CallGrammar::RuleState CallGrammar::after_list(RuleBuilder& rule, RuleState from) {
  ExpressionArena& arena = parts_.expressions;
  const RuleState at = rule.after_lexeme(from, arena.concat(literal("["), space()));
  const RuleState after = rule.after_call(at, inside_call());
  if (may_repeat_) rule.add_call(rule.after_lexeme(after, symbol(",")), inside_call(), after);
  return rule.after_lexeme(after, arena.concat(space(), literal("]")));
}

CallGrammar::RuleState CallGrammar::after_calls(RuleBuilder& rule, RuleState from, RuleId call,
                                                std::string_view separator) {
  const RuleState after = rule.after_call(from, call);
  if (may_repeat_) rule.add_call(after_break(rule, rule.after_mark(after, separator)), call, after);
  return after;
}

std::vector<std::string> CallGrammar::begin_marks() const {
  std::vector<std::string> marks = family_.section_begin;
  if (!family_.call_begin.empty()) marks.emplace_back(without_bracket(family_.call_begin));
  if (!family_.code_begin.empty()) marks.push_back(family_.code_begin);
  return marks;
}

grammar::RuleId CallGrammar::marked_calls() {
  RuleBuilder rule = new_rule("calls");
  if (!family_.code_begin.empty()) add_code(rule);
  if (family_.call_begin.empty()) return rule.rule();
  if (family_.writes_list) {
    RuleState at = after_break(rule, rule.after_mark(rule.start(), without_bracket(family_.call_begin)));
    at = after_break(rule, after_list(rule, at));
    rule.add_step(rule.after_mark(at, family_.call_end), rule.end());
    return rule.rule();
  }
  const RuleId call = one_call();
  if (family_.section_begin.empty()) rule.add_call(rule.start(), call, rule.end());
  for (size_t i = 0; i < family_.section_begin.size(); ++i) {
    RuleState at = after_break(rule, rule.after_mark(rule.start(), family_.section_begin[i]));
    at = family_.writes_sections ? rule.after_call(at, call) : after_calls(rule, at, call, "");
    rule.add_step(rule.after_mark(after_break(rule, at), family_.section_end[i]), rule.end());
  }
  return rule.rule();
}

// Text after the mark of built-in tools: a call in JSON, or code for a tool that runs it. Text that the reader would
// take as a call of a built-in tool is no code, and without a character there is no call.
void CallGrammar::add_code(RuleBuilder& rule) {
  ExpressionArena& arena = parts_.expressions;
  const RuleState at = rule.after_mark(rule.start(), family_.code_begin);
  if (family_.shape == ReplyShape::json) rule.add_call(at, inside_call(), rule.end());
  if (std::ranges::none_of(kCodeTools, [&](std::string_view name) { return tool_set_.knows(name); })) return;
  grammar::ByteSet word;
  for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))
    word.add(static_cast<uint8_t>(c));
  const Expression any = arena.repeat(grammar::utf8_of(arena, grammar::all_code_points()), 1, grammar::kUnbounded);
  const Expression call = arena.concat(std::vector{arena.repeat(arena.bytes(word), 1, grammar::kUnbounded),
                                                   literal(kBuiltinCall), ExpressionArena::kAnything});
  const Expression json = arena.concat(literal("{"), ExpressionArena::kAnything);
  rule.add_lexeme(at, arena.all_of(any, arena.complement(arena.any_of(call, json))), rule.end());
}

std::optional<grammar::RuleId> CallGrammar::bare_calls() {
  if (family_.bare_begin.empty()) return std::nullopt;
  ExpressionArena& arena = parts_.expressions;
  RuleBuilder rule = new_rule("bare calls");
  for (const std::string& mark : family_.bare_begin) {
    const std::string_view fence = without_bracket(mark);
    RuleState at = rule.after_mark(rule.start(), fence);
    if (!fence.empty()) at = rule.after_space(at);
    if (!family_.list_key.empty()) {
      at = rule.after_lexeme(at, arena.concat(std::vector{literal("{"), space(), key(family_.list_key)}));
      at = rule.after_lexeme(after_list(rule, at), arena.concat(space(), literal("}")));
    } else if (family_.shape == ReplyShape::python) {
      at = after_list(rule, at);
    } else {
      at = after_calls(rule, at, inside_call(), family_.separator);
    }
    if (!fence.empty()) at = rule.after_mark(rule.after_space(at), family_.call_end);
    rule.add_step(at, rule.end());
  }
  return rule.rule();
}

Expression CallGrammar::texts_like_bare_calls() {
  ExpressionArena& arena = parts_.expressions;
  RuleBuilder rule = new_rule("");
  std::vector<Expression> inside;
  if (family_.shape == ReplyShape::python) {
    for (const Tool& tool : tools_)
      inside.push_back(arena.concat(std::vector{literal("["), rule.any_space(), literal(tool.name)}));
  } else {
    std::vector<std::string> keys = family_.name_keys;
    if (!family_.list_key.empty()) keys = {family_.list_key};
    for (const std::string& name : keys)
      inside.push_back(arena.concat(std::vector{literal("{"), rule.any_space(), literal(json_quoted(name))}));
    if (states_type_)
      inside.push_back(arena.concat(std::vector{literal("{"), rule.any_space(), literal("\"type\""), rule.any_space(),
                                                literal(":"), rule.any_space(), literal("\"function\"")}));
  }
  std::vector<Expression> begins;
  for (const std::string& mark : family_.bare_begin)
    begins.push_back(arena.concat(literal(without_bracket(mark)), rule.any_space()));
  if (begins.empty()) return ExpressionArena::kNothing;
  return arena.concat(std::vector{rule.any_space(), arena.any_of(std::move(begins)), arena.any_of(std::move(inside)),
                                  ExpressionArena::kAnything});
}

grammar::RuleId CallGrammar::addressed_call() {
  if (family_.shape != ReplyShape::harmony) return inside_call();
  RuleBuilder rule = new_rule("message to a tool");
  for (const Tool& tool : tools_) {
    const std::string recipient = fmt::format(" to={}{}", kFunctions, tool.name);
    const std::string channel = fmt::format("{}commentary", kHarmonyChannel);
    RuleState after = rule.add_state();
    for (const std::string& header : {channel + recipient, recipient + channel}) {
      const RuleState at = rule.after_mark(rule.start(), header);
      rule.add_step(rule.after_mark(at, " <|constrain|>json"), after);
      rule.add_step(rule.after_mark(at, "<|constrain|>json"), after);
      rule.add_step(at, after);
    }
    after = rule.after_call(rule.after_mark(after, kHarmonyMessage), tool.arguments);
    rule.add_step(after, rule.end());
  }
  return rule.rule();
}

}  // namespace tessera::text
