// Grammars of tool calls: each text that a grammar allows is read back as calls that fit the schemas, for all families.
#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "tessera/base/rng.h"
#include "tessera/text/chat/call_writer.h"
#include "tessera/text/chat/reply_grammar.h"
#include "tessera/text/grammar/matcher.h"
#include "tests/text/reply_support.h"

namespace tessera::text {
namespace {

using grammar::Grammar;
using grammar::MaskVocab;
using grammar::Matcher;
using nlohmann::json;
using testing::ReplyCase;

const std::vector<ReplyTool>& tools() {
  static const std::vector<ReplyTool> all = {
      {"get_tide", R"({"type": "object", "required": ["harbour"], "additionalProperties": false, "properties": {
          "harbour": {"type": "string", "minLength": 1, "maxLength": 20}, "days": {"type": "integer", "minimum": 1,
          "maximum": 30}, "unit": {"enum": ["m", "ft"]}, "metric": {"type": ["boolean", "null"]}}})"},
      {"add_note", R"({"type": "object", "required": ["text"], "properties": {
          "text": {"type": "string", "maxLength": 30},
          "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
          "at": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"enum": ["</a>", 1]}},
                 "additionalProperties": false},
          "id": {"type": ["string", "integer"], "maxLength": 9, "minimum": 3}},
          "additionalProperties": {"type": "integer"}, "maxProperties": 5})"},
      {"ping", ""},
  };
  return all;
}

std::vector<std::string> families_with_calls() {
  std::vector<std::string> names;
  for (const ReplyFamily& family : reply_families())
    if (family.shape != ReplyShape::text) names.push_back(family.name);
  return names;
}

std::string prompt_tail_of(const ReplyFamily& family) {
  return family.shape == ReplyShape::harmony ? "<|start|>assistant" : family.has_recipients ? family.call_begin : "";
}

std::shared_ptr<const Grammar> grammar_of(const ReplyFamily& family, const ReplyConstraint& constraint) {
  const auto made = reply_grammar(family, constraint, prompt_tail_of(family), false, {});
  EXPECT_TRUE(made) << family.name << ": " << (made ? "" : made.error().text());
  return made ? *made : nullptr;
}

bool accepts(const Grammar& grammar, std::string_view text) {
  Matcher matcher(std::shared_ptr<const Grammar>(std::shared_ptr<void>(), &grammar));
  return matcher.accept(text) == text.size() && matcher.is_complete();
}

/// A reply of bytes at random among those that the grammar allows, biased to bytes that end a part.
std::string random_reply(Matcher& matcher, Rng& rng) {
  constexpr std::string_view kEnds = "\"}])<\n`>|";
  matcher.restart();
  std::string text;
  while (text.size() < 4000) {
    if (matcher.is_complete() && (rng.next_u32() % 4 == 0 || !matcher.goes_on())) return text;
    const grammar::TokenRow row = matcher.mask();
    std::vector<int32_t> allowed, ends;
    for (int32_t byte = 0; byte < 256; ++byte) {
      if (!row.contains(byte)) continue;
      allowed.push_back(byte);
      if (kEnds.find(static_cast<char>(byte)) != kEnds.npos) ends.push_back(byte);
    }
    if (allowed.empty()) return text + " [no byte can follow]";
    const auto& from = !ends.empty() && rng.next_u32() % 3 == 0 ? ends : allowed;
    const int32_t byte = from[rng.next_u32() % from.size()];
    if (!matcher.accept_token(byte)) return text + " [the mask is wrong]";
    text.push_back(static_cast<char>(byte));
  }
  return "";  // too long
}

std::shared_ptr<const MaskVocab> byte_vocab() {
  std::vector<MaskVocab::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte))});
  tokens.push_back({.ends_text = true});
  return std::make_shared<const MaskVocab>(tokens);
}

/// The fault of a reply that should be calls of the tools; "" if there is none.
std::string fault_of(const ReplyFamily& family, const std::string& text) {
  const ReplyCase given{.family = family, .tools = tools(), .prompt_tail = prompt_tail_of(family)};
  const Reply reply = testing::parse_whole(given, text).reply;
  if (!reply.warnings.empty()) return reply.warnings[0];
  if (reply.content.find_first_not_of(" \n\t\r") != std::string::npos) return "content: " + reply.content;
  for (const ToolCall& call : reply.calls) {
    const auto tool = std::ranges::find(tools(), call.name, &ReplyTool::name);
    if (tool == tools().end()) return "unknown tool " + call.name;
    const std::string schema =
        tool->parameters.empty() ? R"({"type": "object", "maxProperties": 0})" : tool->parameters;
    const auto any = Grammar::from_json_schema(
        schema, {grammar::JsonOrder::any, grammar::JsonSpace::any, grammar::JsonWriting::any});
    if (!any || !accepts(**any, call.arguments)) return "wrong arguments " + call.arguments;
  }
  return "";
}

class CallGrammars : public ::testing::TestWithParam<std::string> {
 protected:
  const ReplyFamily family = *find_reply_family(GetParam());
};

TEST_P(CallGrammars, AllowNothingButRightCalls) {
  const auto grammar = grammar_of(family, {.tools = tools(), .must_call = true});
  ASSERT_TRUE(grammar);
  Matcher matcher(grammar, byte_vocab());
  Rng rng(7);
  size_t n_calls = 0;
  const size_t n_replies = testing::all_or_few<size_t>(60, 12);
  for (size_t i = 0; i < n_replies; ++i) {
    const std::string text = random_reply(matcher, rng);
    if (text.empty()) continue;
    ++n_calls;
    ASSERT_EQ(fault_of(family, text), "") << text;
  }
  EXPECT_GT(n_calls * 3, n_replies);
}

TEST_P(CallGrammars, AllowWhatTheWriterOfCallsWrites) {
  const auto grammar = grammar_of(family, {.tools = tools(), .must_call = true});
  ASSERT_TRUE(grammar);
  const std::vector<ToolCall> calls = {
      {"get_tide", R"({"harbour": "Oban, \"N\"", "days": 3})", "functions.get_tide:0"},
      {"add_note", R"({"text": "a b", "tags": ["x", "y"], "at": {"x": 1.5}, "id": "q", "more": 4})",
       "functions.add_note:1"},
      {"ping", "{}", "functions.ping:2"}};
  for (const ToolCall& call : calls) {
    ToolCall own = call;
    if (!family.name_is_in_id) own.id = "abcdefghi";
    // Names that are not listed cannot be written twice, so this family has none.
    if (family.nested_mark.size() > 0 && call.name == "add_note") own.arguments = R"({"text": "a b"})";
    const auto written = write_calls(family, {{own}});
    ASSERT_TRUE(written);
    std::string text = written->text;
    if (family.has_recipients) text = text.substr(family.call_begin.size());
    if (family.shape == ReplyShape::harmony && text.ends_with(family.call_end))
      text.resize(text.size() - family.call_end.size());  // a token that ends the reply
    EXPECT_TRUE(accepts(*grammar, text)) << text;
    const size_t name = text.find(call.name);
    ASSERT_NE(name, std::string::npos);
    EXPECT_FALSE(accepts(*grammar, std::string(text).replace(name, call.name.size(), "other"))) << text;
    EXPECT_FALSE(accepts(*grammar, "So: " + text)) << text;
  }
}

TEST_P(CallGrammars, AllowTextUpToACall) {
  const auto grammar = grammar_of(family, {.tools = tools()});
  ASSERT_TRUE(grammar);
  const std::string header = family.shape == ReplyShape::harmony ? "<|channel|>final<|message|>"
                             : family.has_recipients             ? "all\n"
                                                                 : "";
  EXPECT_TRUE(accepts(*grammar, header + "Good morning."));
  EXPECT_TRUE(accepts(*grammar, header + "1 < 2, {x: [y]}, `z`"));
  if (family.call_begin.empty() || family.has_recipients || family.shape == ReplyShape::harmony) return;
  const auto written = write_calls(family, {{{"ping", "{}", "functions.ping:0"}}});
  ASSERT_TRUE(written);
  EXPECT_TRUE(accepts(*grammar, header + "I look.\n" + written->text)) << written->text;
  const std::string cut = written->text.substr(0, written->text.find("ping"));
  EXPECT_FALSE(accepts(*grammar, header + "I look.\n" + cut)) << cut;
  EXPECT_FALSE(accepts(*grammar, header + "I look.\n" + cut + "pong"));
}

/// Whether tokens are a reply; those of `controls` are control tokens.
bool accepts_tokens(const ReplyFamily& family, const std::vector<std::string>& controls,
                    const std::vector<std::string>& pieces) {
  const auto find = [&](std::string_view text) -> std::optional<int32_t> {
    const auto found = std::ranges::find(controls, text);
    return found == controls.end() ? std::nullopt : std::optional(static_cast<int32_t>(found - controls.begin()));
  };
  std::vector<MaskVocab::Token> tokens(controls.size());
  for (const std::string& piece : pieces) tokens.push_back({piece});
  const auto grammar = reply_grammar(family, {.tools = tools()}, "", true, find);
  EXPECT_TRUE(grammar);
  Matcher matcher(*grammar, std::make_shared<const MaskVocab>(tokens));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int32_t id = find(pieces[i]).value_or(static_cast<int32_t>(controls.size() + i));
    const bool is_in_mask = matcher.mask().contains(id);
    const bool fits = matcher.accept_token(id);
    EXPECT_EQ(is_in_mask, fits) << pieces[i];
    if (!fits) return false;
  }
  return matcher.is_complete();
}

TEST(CallGrammar, MarksMayBeControlTokens) {
  const ReplyFamily gemma = *find_reply_family("gemma-4");
  const std::vector<std::string> controls = {"<|tool_call>", "<tool_call|>", "<|\"|>", "<turn|>"};
  EXPECT_TRUE(accepts_tokens(gemma, controls, {"Well", "<turn|>", "!"}));
  EXPECT_TRUE(accepts_tokens(
      gemma, controls,
      {"I look.", "<|tool_call>", "call:get_tide{har", "bour:", "<|\"|>", "Oban", "<|\"|>", "}", "<tool_call|>"}));
  EXPECT_FALSE(accepts_tokens(gemma, controls, {"<|tool_call>", "Oban"}));
  EXPECT_FALSE(accepts_tokens(gemma, controls, {"<|tool_call>", "call:get_tide{harbour:", "Oban"}));
  EXPECT_FALSE(accepts_tokens(gemma, controls, {"<|tool_call>", "call:ping{", "<|\"|>"}));
  const ReplyFamily hermes = *find_reply_family("hermes");
  EXPECT_TRUE(
      accepts_tokens(hermes, {}, {"So: <tool", "_call>\n{\"name\": \"ping\", \"argu", "ments\": {}}\n</tool_call>"}));
  EXPECT_FALSE(accepts_tokens(hermes, {}, {"So: <tool", "_call>Hm."}));
}

// What the grammar takes as code, the parser does too: without any code there would be no call.
TEST(CallGrammar, CodeIsWhatTheParserReadsAsCode) {
  for (const char* name : {"llama-3", "functionary-3.1"}) {
    const ReplyCase given{.family = *find_reply_family(name), .tools = {{"python", ""}}};
    const auto grammar = grammar_of(given.family, {.tools = given.tools, .must_call = true});
    ASSERT_TRUE(grammar);
    for (const char* text : {"x", " ", "search.call", "print(\"{\")\n"}) {
      const std::string reply = "<|python_tag|>" + std::string(text);
      EXPECT_TRUE(accepts(*grammar, reply)) << name << ": " << text;
      EXPECT_EQ(testing::parse_whole(given, reply).reply.calls.size(), 1u) << name << ": " << text;
    }
    for (const char* text : {"", "search.call(", "{"})
      EXPECT_FALSE(accepts(*grammar, "<|python_tag|>" + std::string(text))) << name << ": " << text;
  }
}

TEST(CallGrammar, ACallThatMeansNoCallTakesAnyArguments) {
  const ReplyFamily family = *find_reply_family("command-r-plus");
  const auto grammar = grammar_of(family, {.tools = tools(), .must_call = true});
  for (const char* arguments : {"{}", R"({"x": [1]})"}) {
    const auto written = write_calls(family, {{{family.ignored_name, arguments, ""}}});
    ASSERT_TRUE(written);
    EXPECT_TRUE(accepts(*grammar, written->text)) << written->text;
  }
}

TEST(CallGrammar, NamesThatCannotBeWrittenAreErrors) {
  const auto error = [](std::string_view family, std::vector<ReplyTool> given) {
    const auto made = reply_grammar(*find_reply_family(family), {.tools = given}, "", true, {});
    return made ? "no error" : made.error().text();
  };
  EXPECT_EQ(error("hermes", {{"a \"b\"::=", ""}}), "no error");
  EXPECT_EQ(error("glm-4", {{"a b", ""}}),
            R"(tool "a b": the name has characters that the model's form of calls cannot write)");
  EXPECT_EQ(error("hermes", {{"a", ""}, {"a", ""}}), R"(tool "a": another tool has this name)");
  EXPECT_EQ(error("hermes", {{"", ""}}), R"(tool "": the name is empty)");
  EXPECT_EQ(error("hermes", {{"a", R"({"not": {}})"}}), R"(tool "a": no arguments satisfy its schema)");
  EXPECT_EQ(error("hermes", {{"a", R"({"not": {}})", false}}), "no error");
  EXPECT_EQ(error("lfm2", {{"a", R"({"required": ["b c"], "properties": {"b c": {}}})"}}),
            R"(tool "a": json_schema#/required: the model's form of calls cannot write the name "b c")");
  std::vector<ReplyTool> many;
  for (size_t i = 0; i <= kMaxReplyTools; ++i) many.push_back({"t" + std::to_string(i), ""});
  EXPECT_EQ(error("hermes", many), R"(tool "t1024": more than 1024 tools)");
}

INSTANTIATE_TEST_SUITE_P(Families, CallGrammars, ::testing::ValuesIn(families_with_calls()), [](const auto& info) {
  std::string name = info.param;
  std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
  return name;
});

}  // namespace
}  // namespace tessera::text
