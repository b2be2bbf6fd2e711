// Messages of the Anthropic API over HTTP: blocks, tools, events, refusals.
#include <gtest/gtest.h>

#include "tests/server/api_support.h"

namespace tessera {
namespace {

using namespace testing;

// Shows roles, ids of calls and reasoning, so that a test sees what the template got.
constexpr const char* kShowingTemplate =
    "{% if tools %}{{ tools|tojson }}\n{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}"
    "{% if message.tool_call_id %}#{{ message.tool_call_id }}{% endif %}{% if message.name %}={{ message.name }}"
    "{% endif %}\n{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}"
    "{{ message.content }}{% for call in message.tool_calls %}<tool_call>\n{{ call.function|tojson }}\n</tool_call>"
    "{{ call.id }}{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

struct NamedEvent {
  std::string name;
  ordered_json data;
};

class AnthropicApi : public ApiTest {
 protected:
  void start_with_tools() {
    ApiSetup setup;
    setup.served.chat_template = kShowingTemplate;
    start(std::move(setup));
  }

  static ordered_json says(const std::string& text) {
    return ordered_json::array({{{"role", "user"}, {"content", text}}});
  }
  static ordered_json flag_tool(const std::string& name) {
    return {{"name", name},
            {"description", "Adds"},
            {"input_schema",
             {{"type", "object"},
              {"properties", {{"up", {{"type", "boolean"}}}}},
              {"required", {"up"}},
              {"additionalProperties", false}}}};
  }

  /// The number of tokens of a request.
  int64_t n_tokens(const ordered_json& request) const {
    const Answer answer = post_json("/v1/messages/count_tokens", request);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json.value("input_tokens", int64_t{-1});
  }

  /// The prompt that the OpenAI route makes of messages.
  std::string prompt_of(const ordered_json& messages) const {
    return post_json("/apply-template", {{"messages", messages}}).json["prompt"];
  }

  std::vector<NamedEvent> named_events(ordered_json request) const {
    request["stream"] = true;
    const Answer answer = post_json("/v1/messages", request);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    std::vector<NamedEvent> events;
    const std::string& text = answer.reply.body;
    for (size_t begin = 0, end; (end = text.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
      const std::string event = text.substr(begin, end - begin);
      const size_t data = event.find("\ndata: ");
      if (!event.starts_with("event: ") || data == std::string::npos) {
        ADD_FAILURE() << event;
        continue;
      }
      events.push_back({event.substr(7, data - 7), ordered_json::parse(event.substr(data + 7), nullptr, false)});
      EXPECT_EQ(events.back().data.value("type", ""), events.back().name);
    }
    return events;
  }
};

std::string names_of(const std::vector<NamedEvent>& events) {
  std::string names;
  for (const NamedEvent& event : events) {
    const bool repeats = event.name == "content_block_delta" && names.ends_with("content_block_delta ");
    if (!repeats) names += event.name + ' ';
  }
  return names;
}

TEST_F(AnthropicApi, AMessageHasATextBlockAndUsage) {
  start();
  const Answer answer =
      post_json("/v1/messages", {{"model", "any"}, {"max_tokens", 6}, {"messages", says("Hello")}, {"seed", 1}});
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const ordered_json& message = answer.json;
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
  ASSERT_EQ(message["content"].size(), 1u);
  EXPECT_EQ(message["content"][0]["type"], "text");
  EXPECT_TRUE(message["content"][0]["citations"].is_null());
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  EXPECT_TRUE(message["stop_sequence"].is_null());
  EXPECT_EQ(message["usage"]["output_tokens"], 6);
  EXPECT_FALSE(message.contains("timings"));
  const int64_t n_prompt = n_tokens({{"messages", says("Hello")}});
  const auto& usage = message["usage"];
  EXPECT_EQ(usage["input_tokens"].get<int64_t>() + usage["cache_read_input_tokens"].get<int64_t>(), n_prompt);
}

TEST_F(AnthropicApi, AStreamHasAllEventsInOrder) {
  start();
  const ordered_json request = {{"max_tokens", 9}, {"messages", says("Hello")}, {"seed", 1}};
  const Answer whole = post_json("/v1/messages", request);
  const auto events = named_events(request);
  EXPECT_EQ(names_of(events),
            "message_start content_block_start ping content_block_delta content_block_stop message_delta "
            "message_stop ");
  const auto& message = events.front().data["message"];
  EXPECT_EQ(message["content"], ordered_json::array());
  EXPECT_EQ(message["usage"]["output_tokens"], 0);
  EXPECT_TRUE(message["stop_reason"].is_null());
  std::string text;
  for (const NamedEvent& event : events) {
    if (event.name != "content_block_delta") continue;
    EXPECT_EQ(event.data["index"], 0);
    EXPECT_EQ(event.data["delta"]["type"], "text_delta");
    text += event.data["delta"]["text"];
  }
  EXPECT_EQ(text, whole.json["content"][0]["text"]);
  const ordered_json& delta = events[events.size() - 2].data;
  EXPECT_EQ(delta["delta"]["stop_reason"], "max_tokens");
  EXPECT_EQ(delta["usage"]["output_tokens"], 9);
}

TEST_F(AnthropicApi, AStopSequenceIsReported) {
  start();
  ordered_json request = {{"max_tokens", 40}, {"messages", says("Hello")}, {"seed", 1}};
  const std::string text = post_json("/v1/messages", request).json["content"][0]["text"];
  const std::string stop = text.substr(text.size() / 2, 4);
  request["stop_sequences"] = {stop};
  const Answer answer = post_json("/v1/messages", request);
  EXPECT_EQ(answer.json["stop_reason"], "stop_sequence") << answer.reply.body;
  EXPECT_EQ(answer.json["stop_sequence"], stop);
  EXPECT_EQ(answer.json["content"][0]["text"], text.substr(0, text.find(stop)));
}

TEST_F(AnthropicApi, AForcedToolIsUsed) {
  start_with_tools();
  const ordered_json request = {
      {"max_tokens", 700},
      {"messages", says("Hi")},
      {"seed", 3},
      {"thinking", {{"type", "disabled"}}},
      {"tools", {flag_tool("add"), flag_tool("sub")}},
      {"tool_choice", {{"type", "tool"}, {"name", "sub"}, {"disable_parallel_tool_use", true}}}};
  const Answer answer = post_json("/v1/messages", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  ASSERT_EQ(answer.json["content"].size(), 1u) << answer.reply.body;
  const auto& block = answer.json["content"][0];
  EXPECT_EQ(block["type"], "tool_use");
  EXPECT_TRUE(block["id"].get<std::string>().starts_with("toolu_"));
  EXPECT_EQ(block["name"], "sub");
  EXPECT_TRUE(block["input"]["up"].is_boolean());
  EXPECT_EQ(answer.json["stop_reason"], "tool_use");

  const auto events = named_events(request);
  EXPECT_EQ(names_of(events),
            "message_start content_block_start ping content_block_delta content_block_stop message_delta "
            "message_stop ");
  std::string input;
  for (const NamedEvent& event : events)
    if (event.name == "content_block_delta") input += event.data["delta"]["partial_json"];
  EXPECT_TRUE(ordered_json::parse(input, nullptr, false)["up"].is_boolean()) << input;
  EXPECT_EQ(events[1].data["content_block"]["input"], ordered_json::object());
  EXPECT_EQ(events[1].data["content_block"]["name"], "sub");
}

TEST_F(AnthropicApi, BlocksOfParallelToolsAreNumbered) {
  start_with_tools();
  const auto events = named_events({{"max_tokens", 900},
                                    {"messages", says("Hi")},
                                    {"temperature", 0},
                                    {"thinking", {{"type", "disabled"}}},
                                    {"tools", {flag_tool("add")}},
                                    {"tool_choice", {{"type", "any"}}}});
  int64_t n_open = -1, n_blocks = 0;
  for (const NamedEvent& event : events) {
    if (event.name == "content_block_start") {
      EXPECT_EQ(n_open, -1);
      EXPECT_EQ(event.data["index"], n_blocks);
      n_open = n_blocks++;
    } else if (event.name == "content_block_delta") {
      EXPECT_EQ(event.data["index"], n_open);
    } else if (event.name == "content_block_stop") {
      EXPECT_EQ(event.data["index"], n_open);
      n_open = -1;
    }
  }
  EXPECT_GE(n_blocks, 1);
  EXPECT_EQ(n_open, -1);
}

TEST_F(AnthropicApi, ThinkingIsABlockWithASignature) {
  ApiSetup setup;
  setup.served.chat_template = std::string(kShowingTemplate) + "{% if add_generation_prompt %}<think>\n{% endif %}";
  start(std::move(setup));
  const ordered_json request = {
      {"max_tokens", 200},
      {"messages", says("Hi")},
      {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}},
      {"output_config", {{"format", {{"type", "json_schema"}, {"schema", {{"type", "boolean"}}}}}}}};
  const Answer answer = post_json("/v1/messages", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  ASSERT_FALSE(answer.json["content"].empty());
  EXPECT_EQ(answer.json["content"][0]["type"], "thinking") << answer.reply.body;
  EXPECT_EQ(answer.json["content"][0]["signature"], "");
  const auto events = named_events(request);
  ASSERT_GT(events.size(), 5u);
  EXPECT_EQ(events[1].data["content_block"]["type"], "thinking");
  std::string kinds;
  for (const NamedEvent& event : events) {
    if (event.name != "content_block_delta" || event.data["index"] != 0) continue;
    const std::string kind = event.data["delta"]["type"];
    if (!kinds.ends_with(kind + ' ')) kinds += kind + ' ';
  }
  EXPECT_EQ(kinds, "thinking_delta signature_delta ");
}

TEST_F(AnthropicApi, ASchemaOfTheOutputHolds) {
  start();
  const ordered_json format = {{"type", "json_schema"},
                               {"schema",
                                {{"type", "object"},
                                 {"properties", {{"ok", {{"type", "boolean"}}}}},
                                 {"required", {"ok"}},
                                 {"additionalProperties", false}}}};
  const Answer answer = post_json(
      "/v1/messages", {{"max_tokens", 60}, {"messages", says("Hi")}, {"output_config", {{"format", format}}}});
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const auto value = ordered_json::parse(answer.json["content"][0]["text"].get<std::string>(), nullptr, false);
  EXPECT_TRUE(value.is_object() && value["ok"].is_boolean()) << answer.reply.body;
  EXPECT_EQ(answer.json["stop_reason"], "end_turn");
}

TEST_F(AnthropicApi, BlocksBecomeMessagesOfTheTemplate) {
  start_with_tools();
  const auto messages = ordered_json::parse(R"([
    {"role":"user","content":[{"type":"text","text":"One"},{"type":"text","text":"Two","cache_control":{"type":"ephemeral"}}]},
    {"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":""},{"type":"redacted_thinking","data":"x"},
      {"type":"text","text":"Look"},{"type":"tool_use","id":"toolu_a1","name":"add","input":{"up":true}}]},
    {"role":"user","content":[{"type":"text","text":"After"},
      {"type":"tool_result","tool_use_id":"toolu_a1","content":[{"type":"text","text":"3"}],"is_error":false}]},
    {"role":"user","content":"Again"}])");
  const int64_t n = n_tokens({{"messages", messages}, {"system", {{{"type", "text"}, {"text", "Sys"}}}}});
  const auto same = ordered_json::parse(R"([
    {"role":"system","content":"Sys"},
    {"role":"user","content":"One\nTwo"},
    {"role":"assistant","content":"Look","reasoning_content":"Hm","tool_calls":[
      {"id":"a1","type":"function","function":{"name":"add","arguments":"{\"up\":true}"}}]},
    {"role":"tool","content":"3","tool_call_id":"a1","name":"add"},
    {"role":"user","content":"After\nAgain"}])");
  const std::string prompt = prompt_of(same);
  EXPECT_NE(prompt.find("tool#a1=add3"), std::string::npos) << prompt;
  const Answer counted = post_json("/v1/chat/completions/input_tokens", {{"messages", same}});
  EXPECT_EQ(counted.json["input_tokens"], n);
  // The same tokens: all but the last come from the cache.
  const ordered_json first = {{"messages", same}, {"max_tokens", 1}};
  ASSERT_EQ(post_json("/v1/chat/completions", first).status, 200);
  const Answer answer = post_json("/v1/messages", {{"messages", messages}, {"system", "Sys"}, {"max_tokens", 1}});
  EXPECT_EQ(answer.json["usage"]["cache_read_input_tokens"], n - 1) << answer.reply.body;
}

TEST_F(AnthropicApi, ALastMessageOfTheAssistantIsContinued) {
  start();
  ordered_json messages = says("Tell me");
  const int64_t n_closed = n_tokens({{"messages", messages}});
  messages.push_back({{"role", "assistant"}, {"content", "Once"}});
  const int64_t n_open = n_tokens({{"messages", messages}});
  messages.push_back({{"role", "user"}, {"content", ""}});
  EXPECT_GT(n_open, n_closed);
  EXPECT_GT(n_tokens({{"messages", messages}}), n_open + 4);  // the marks of two more turns
}

TEST_F(AnthropicApi, ABillingHeaderDoesNotEndThePrefix) {
  start();
  const auto request = [](const std::string& digits) {
    return ordered_json{{"system",
                         {{{"type", "text"}, {"text", "x-anthropic-billing-header: v=1; cch=" + digits + ";"}},
                          {{"type", "text"}, {"text", "Be brief."}}}},
                        {"messages", says("Hello")},
                        {"max_tokens", 1}};
  };
  ASSERT_EQ(post_json("/v1/messages", request("a0b1c")).status, 200);
  const Answer second = post_json("/v1/messages", request("12345"));
  EXPECT_EQ(second.json["usage"]["input_tokens"], 1) << second.reply.body;
  const Answer other = post_json("/v1/messages", request("xyz45"));
  EXPECT_GT(other.json["usage"]["input_tokens"], 1) << other.reply.body;
}

TEST_F(AnthropicApi, BadFieldsAreRefusedWithTheirPath) {
  start();
  const std::string user = R"("messages":[{"role":"user","content":"a"}])";
  const std::pair<std::string, const char*> bad[] = {
      {R"({})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":[{"role":"robot","content":"a"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":7}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"file:///etc/passwd"}}]}]})",
       "image and audio input is not supported"},
      {R"({"messages":[{"role":"user","content":[{"type":"tool_use","id":"a","name":"b","input":{}}]}]})",
       "messages[0].content[0].type"},
      {R"({"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":5}]}]})",
       "messages[0].content[0].input"},
      {R"({"messages":[{"role":"user","content":[{"type":"tool_result","content":"b"}]}]})", "tool_use_id"},
      {R"({"system":5,)" + user + "}", "system"},
      {R"({"system":[{"type":"image"}],)" + user + "}", "system[0].type"},
      {R"({"tools":[{"name":"a"}],)" + user + "}", "tools[0].input_schema"},
      {R"({"tools":[{"name":"a\nb","input_schema":{}}],)" + user + "}", "tools[0].name"},
      {R"({"tools":[{"type":"web_search_20250305","name":"web_search"}],)" + user + "}", "tools[0].type"},
      {R"({"tool_choice":{"type":"any"},)" + user + "}", "tool_choice"},
      {R"({"tool_choice":{"type":"most"},)" + user + "}", "tool_choice.type"},
      {R"({"thinking":{"type":"enabled","budget_tokens":-5},)" + user + "}", "thinking.budget_tokens"},
      {R"({"output_config":{"format":{"type":"json_schema","schema":{"type":"string","pattern":"("}}},)" + user + "}",
       "output_config.format.schema"},
      {R"({"stop_sequences":"a",)" + user + "}", "stop_sequences"},
      {R"({"max_tokens":"many",)" + user + "}", "max_tokens"},
      {R"({"n":2,)" + user + "}", "'n'"},
  };
  for (const auto& [body, part] : bad) {
    const Answer answer = post("/v1/messages", body);
    expect_refused(answer, 400, part);
    EXPECT_EQ(answer.json["type"], "error");
    EXPECT_EQ(answer.json["error"]["type"], "invalid_request_error");
    EXPECT_EQ(answer.json["request_id"], std::string(answer.reply.field("request-id")));
  }
}

TEST_F(AnthropicApi, ModelsHaveTheFormOfTheClient) {
  start();
  const Answer openai = get("/v1/models");
  EXPECT_EQ(openai.json["object"], "list");
  const std::string id = openai.json["data"][0]["id"];
  const std::string field = "anthropic-version: 2023-06-01\r\n";
  const Answer answer = get("/v1/models", field);
  EXPECT_EQ(answer.json["first_id"], id) << answer.reply.body;
  EXPECT_EQ(answer.json["data"][0]["type"], "model");
  const std::string created = answer.json["data"][0]["created_at"];
  EXPECT_EQ(created.size(), std::string("2026-01-01T00:00:00Z").size()) << created;
  EXPECT_EQ(get("/v1/models/" + id, field).json, answer.json["data"][0]);
  EXPECT_EQ(get("/v1/models/" + id).json, openai.json["data"][0]);
  EXPECT_EQ(get("/v1/models/other").status, 404);
}

}  // namespace
}  // namespace tessera
