// Messages and tools of chats: their forms, limits, and errors.
#include "tessera/server/api/chat_call.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/server/api/anthropic.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/json_field.h"

namespace tessera::server {
namespace {

Json named_tool(const std::string& name, const std::string& description = "") {
  return {{"type", "function"}, {"function", {{"name", name}, {"description", description}}}};
}

template <class T>
std::string refusal_in(const FieldResult<T>& result) {
  EXPECT_FALSE(result);
  return result ? "" : result.error().message;
}

TEST(ToolName, IsOneOfAFewCharacters) {
  for (const std::string& name : {std::string("a"), std::string("z"), std::string("A"), std::string("Z"),
                                  std::string("0"), std::string("9"), std::string("_.-"), std::string(64, 'n')})
    EXPECT_TRUE(is_tool_name(name)) << name;
  for (const std::string& name :
       {std::string(), std::string(65, 'n'), std::string("`"), std::string("{"), std::string("@"), std::string("["),
        std::string("/"), std::string(":"), std::string("a b"), std::string("\u00e4")})
    EXPECT_FALSE(is_tool_name(name)) << name;
}

TEST(CheckTools, ReturnsTheListAsJson) {
  EXPECT_EQ(check_tools(Json::array()).value(), "");
  const Json tools = Json::array({named_tool("a"), named_tool("b")});
  EXPECT_EQ(Json::parse(check_tools(tools).value()), tools);
  EXPECT_TRUE(check_tools(Json::array({{{"function", {{"name", "a"}}}}})));  // the type may be left out
}

TEST(CheckTools, HasLimits) {
  Json tools = Json::array();
  for (size_t i = 0; i < kMaxTools; ++i) tools.push_back(named_tool("t" + std::to_string(i)));
  EXPECT_TRUE(check_tools(tools));
  tools.push_back(named_tool("more"));
  EXPECT_EQ(refusal_in(check_tools(tools)), "Field 'tools': 1025 tools, want at most 1024");
  const size_t n_other = check_tools(Json::array({named_tool("a")}))->size();
  EXPECT_TRUE(check_tools(Json::array({named_tool("a", std::string(kMaxToolBytes - n_other, 'x'))})));
  EXPECT_EQ(refusal_in(check_tools(Json::array({named_tool("a", std::string(kMaxToolBytes - n_other + 1, 'x'))}))),
            "Field 'tools': 1048577 bytes, want at most 1048576");
}

TEST(CheckTools, RefusesOtherForms) {
  const std::pair<Json, const char*> bad[] = {
      {5, "tools"},
      {Json::array({5}), "tools[0]"},
      {Json::array({named_tool("a"), {{"type", "custom"}, {"function", {{"name", "b"}}}}}), "tools[1].type"},
      {Json::array({{{"type", "function"}}}), "tools[0].function"},
      {Json::array({{{"function", {{"description", "b"}}}}}), "tools[0].function.name"},
      {Json::array({named_tool("a b")}), "tools[0].function.name"},
      {Json::array({named_tool("a"), named_tool("b"), named_tool("a")}), "two tools are named 'a'"},
  };
  for (const auto& [tools, part] : bad)
    EXPECT_NE(refusal_in(check_tools(tools)).find(part), std::string::npos) << tools;
}

TEST(CheckMessages, PartsOfAContentAreJoined) {
  const auto content_of = [](const Json& content) {
    const auto checked = check_messages(Json::array({{{"role", "user"}, {"content", content}}}));
    EXPECT_TRUE(checked) << content;
    return Json::parse(checked->json)[0]["content"];
  };
  const Json one = {{"type", "text"}, {"text", "one"}}, no = {{"type", "refusal"}, {"refusal", "no"}};
  EXPECT_EQ(content_of(Json::array({one, no})), "one\nno");
  EXPECT_EQ(content_of(Json::array({no})), "no");
  EXPECT_EQ(content_of(Json::array()), "");
  EXPECT_NE(refusal_in(
                check_messages(Json::array({{{"role", "user"}, {"content", Json::array({one, {{"type", "audio"}}})}}})))
                .find("'messages[0].content[1].type': 'audio'"),
            std::string::npos);
}

TEST(CheckMessages, CallsHaveTheirArgumentsAsText) {
  const auto checked = check_messages(
      Json::array({{{"role", "assistant"},
                    {"tool_calls", Json::array({{{"id", "1"}, {"function", {{"name", "a"}, {"arguments", {{"x", 1}}}}}},
                                                {{"function", {{"name", "b"}, {"arguments", "{\"y\":2}"}}}},
                                                {{"function", {{"name", "c"}}}}})}}}));
  ASSERT_TRUE(checked);
  const Json message = Json::parse(checked->json)[0];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"x\":1}");
  EXPECT_EQ(message["tool_calls"][0]["id"], "1");
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], "{\"y\":2}");
  EXPECT_EQ(message["tool_calls"][1]["id"], "");
  EXPECT_EQ(message["tool_calls"][2]["function"]["arguments"], "{}");
}

TEST(CheckMessages, TheEndMayBeOfTheAssistantOnce) {
  const Json user = {{"role", "user"}, {"content", "a"}}, reply = {{"role", "assistant"}, {"content", "b"}};
  const auto check = [](const Json& messages) { return check_messages(messages).value().ends_with_assistant; };
  EXPECT_FALSE(check(Json::array()));
  EXPECT_FALSE(check(Json::array({user})));
  EXPECT_TRUE(check(Json::array({reply})));
  EXPECT_TRUE(check(Json::array({user, reply})));
  EXPECT_FALSE(check(Json::array({reply, reply, user})));
  EXPECT_NE(refusal_in(check_messages(Json::array({reply, reply}))).find("two messages"), std::string::npos);
}

TEST(GrammarUse, NeedsAReplyWithoutOtherRules) {
  for (const bool is_schema : {false, true}) {
    ChatCall call;
    EXPECT_TRUE(check_grammar_use(call));
    (is_schema ? call.fields.json_schema : call.fields.grammar) = "x";
    EXPECT_TRUE(check_grammar_use(call));
    call.answer_schema = "{}";
    EXPECT_EQ(refusal_in(check_grammar_use(call)), "Field 'grammar': cannot be combined with response_format");
    call.tools = "[]";
    EXPECT_EQ(refusal_in(check_grammar_use(call)), "Field 'grammar': cannot be combined with tools");
  }
  ChatCall call;
  call.tools = "[]";
  call.answer_schema = "{}";
  EXPECT_TRUE(check_grammar_use(call));
}

// --- the Anthropic API

TEST(BillingHeader, DigitsAreHexadecimal) {
  const std::string begin = "x-anthropic-billing-header: v=1; cch=", end = "; more";
  for (const char* digits : {"00000", "99999", "aaaaa", "fffff", "AAAAA", "FFFFF", "0a1F9"})
    EXPECT_EQ(settle_billing_header(begin + digits + end), begin + "fffff" + end) << digits;
  for (const char* other : {"0000/", "0000:", "0000`", "0000g", "0000@", "0000G", "000 0"})
    EXPECT_EQ(settle_billing_header(begin + other + end), begin + other + end) << other;
  EXPECT_EQ(settle_billing_header(begin + "0000"), begin + "0000");
  EXPECT_EQ(settle_billing_header(begin + "00000"), begin + "fffff");
  EXPECT_EQ(settle_billing_header("a " + begin + "00000"), "a " + begin + "00000");
  EXPECT_EQ(settle_billing_header("x-anthropic-billing-header: v=1"), "x-anthropic-billing-header: v=1");
}

ChatCall call_of_blocks(const char* body) {
  ChatCall call;
  const auto json = read_json_field(body);
  EXPECT_TRUE(json) << body;
  const auto read = read_anthropic_messages(FieldReader(*json), call);
  EXPECT_TRUE(read) << body << (read ? "" : read.error().message);
  return call;
}

TEST(AnthropicBlocks, AResultWithoutTextsIsNoMessageOfTheUser) {
  const auto roles_of = [](const char* body) {
    std::string roles;
    for (const Json& message : Json::parse(call_of_blocks(body).messages))
      roles += message["role"].get<std::string>() + " ";
    return roles;
  };
  EXPECT_EQ(roles_of(R"({"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]})"),
            "tool ");
  EXPECT_EQ(roles_of(R"({"messages":[{"role":"user","content":[]}]})"), "user ");
  EXPECT_EQ(roles_of(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]})"), "user ");
  EXPECT_EQ(roles_of(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},
                        {"type":"tool_result","tool_use_id":"a"}]}]})"),
            "tool user ");
}

TEST(AnthropicBlocks, AResultHasTheNameOfItsCall) {
  const Json messages = Json::parse(call_of_blocks(R"({"messages":[
        {"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"add","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"},
                                  {"type":"tool_result","tool_use_id":"toolu_2"}]}]})")
                                        .messages);
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1], (Json{{"role", "tool"}, {"content", ""}, {"tool_call_id", "1"}, {"name", "add"}}));
  EXPECT_EQ(messages[2], (Json{{"role", "tool"}, {"content", ""}, {"tool_call_id", "2"}}));
}

TEST(AnthropicBlocks, OnlyATextOfTheAssistantIsContinued) {
  EXPECT_TRUE(call_of_blocks(R"({"messages":[{"role":"assistant","content":"a"}]})").continues_last);
  EXPECT_FALSE(call_of_blocks(R"({"messages":[{"role":"user","content":"a"}]})").continues_last);
  EXPECT_FALSE(call_of_blocks(R"({"messages":[{"role":"assistant","content":[
    {"type":"tool_use","id":"1","name":"add","input":{}}]}]})")
                   .continues_last);
}

}  // namespace
}  // namespace tessera::server
