// Responses of the OpenAI API over HTTP: items, events, stored answers, refusals.
#include <gtest/gtest.h>

#include "tessera/server/api/response_store.h"
#include "tests/server/api_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr const char* kItemTemplate =
    "{% if tools %}{{ tools|tojson }}{% endif %}{% for message in messages %}<|im_start|>{{ message.role + '\\n' }}"
    "{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}"
    "{{ message.content or '' }}{% for call in message.tool_calls %}{{ '<tool_call>\\n' }}{{ call.function|tojson }}"
    "{{ '\\n</tool_call>' }}{{ call.id }}{% endfor %}{% if message.name %}={{ message.name }}{% endif %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

class ResponsesApi : public ApiTest {
 protected:
  void start_with_items() {
    ApiSetup setup;
    setup.served.chat_template = kItemTemplate;
    start(std::move(setup));
  }

  /// A request without reasoning.
  static ordered_json request_of(ordered_json input, int n_tokens) {
    return {
        {"input", std::move(input)}, {"max_output_tokens", n_tokens}, {"seed", 1}, {"reasoning", {{"effort", "none"}}}};
  }

  int64_t n_input_tokens(const ordered_json& request) const {
    const Answer answer = post_json("/v1/responses/input_tokens", request);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json.value("input_tokens", int64_t{-1});
  }

  /// The events of a stream, whose numbers must count from 0 and whose names must be their types.
  std::vector<ordered_json> numbered_events(ordered_json request) const {
    request["stream"] = true;
    const Answer answer = post_json("/v1/responses", request);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    std::vector<ordered_json> events;
    const std::string& text = answer.reply.body;
    for (size_t begin = 0, end; (end = text.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
      const std::string event = text.substr(begin, end - begin);
      const size_t data = event.find("\ndata: ");
      if (data == std::string::npos) {
        ADD_FAILURE() << event;
        continue;
      }
      events.push_back(ordered_json::parse(event.substr(data + 7), nullptr, false));
      EXPECT_EQ("event: " + events.back().value("type", ""), event.substr(0, data));
      EXPECT_EQ(events.back().value("sequence_number", -1), static_cast<int>(events.size()) - 1);
    }
    return events;
  }
};

ordered_json up_function() {
  return {{"type", "function"},
          {"name", "add"},
          {"parameters",
           {{"type", "object"},
            {"properties", {{"up", {{"type", "boolean"}}}}},
            {"required", {"up"}},
            {"additionalProperties", false}}}};
}

std::string types_of(const std::vector<ordered_json>& events) {
  constexpr std::string_view kPrefix = "response.";
  std::string types;
  for (const ordered_json& event : events) {
    const std::string type = event.value("type", "").substr(kPrefix.size()) + ' ';
    if (!(type.find(".delta") != std::string::npos && types.ends_with(type))) types += type;
  }
  return types;
}

TEST_F(ResponsesApi, AResponseHasAMessageAndUsage) {
  start_with_items();
  ordered_json request = request_of("Hello", 6);
  request["metadata"] = {{"a", "b"}};
  const Answer answer = post_json("/v1/responses", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const ordered_json& response = answer.json;
  EXPECT_EQ(response["object"], "response");
  EXPECT_TRUE(response["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_TRUE(response["completed_at"].is_null());
  ASSERT_EQ(response["output"].size(), 1u);
  EXPECT_EQ(response["output"][0]["type"], "message");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], response["output_text"]);
  EXPECT_EQ(response["usage"]["output_tokens"], 6);
  EXPECT_EQ(response["usage"]["input_tokens"], n_input_tokens(request));
  EXPECT_EQ(response["metadata"]["a"], "b");
  EXPECT_EQ(response["reasoning"]["effort"], "none");
}

TEST_F(ResponsesApi, AStreamHasAllEventsOfAMessage) {
  start_with_items();
  const ordered_json request = request_of("Hello", 9);
  const Answer whole = post_json("/v1/responses", request);
  const auto events = numbered_events(request);
  EXPECT_EQ(types_of(events),
            "created in_progress output_item.added content_part.added output_text.delta output_text.done "
            "content_part.done output_item.done incomplete ");
  std::string text;
  for (const ordered_json& event : events)
    if (event["type"] == "response.output_text.delta") text += event["delta"];
  EXPECT_EQ(text, whole.json["output_text"]);
  EXPECT_EQ(events.back()["response"]["output_text"], text);
  EXPECT_EQ(events.back()["timings"]["predicted_n"], 9);
  EXPECT_EQ(events[2]["item"]["content"], ordered_json::array());
  EXPECT_EQ(events[events.size() - 2]["item"], events.back()["response"]["output"][0]);
}

TEST_F(ResponsesApi, LogprobsComeWhenTheyAreIncluded) {
  start_with_items();
  const auto n_logprobs = [&](const ordered_json& include) {
    ordered_json request = request_of("Hello", 5);
    request["include"] = include;
    const ordered_json answer = post_json("/v1/responses", request).json;
    return answer["output"][0]["content"][0]["logprobs"].size();
  };
  EXPECT_EQ(n_logprobs(ordered_json::array({"message.output_text.logprobs"})), 5u);
  EXPECT_EQ(n_logprobs(ordered_json::array({"reasoning.encrypted_content"})), 0u);
  EXPECT_EQ(n_logprobs(ordered_json::array()), 0u);
}

TEST_F(ResponsesApi, TheServersBoundOfTokensHolds) {
  for (const auto& [server, client, most] :
       {std::tuple(-1, 5, 5), {7, 5, 5}, {5, 7, 5}, {0, 5, 0}, {-1, 0, 0}, {6, -1, 6}}) {
    ApiSetup setup{.n_slots = 1};
    setup.options.api.defaults.n_predict = server;
    setup.served.chat_template = kItemTemplate;
    server_.reset();
    start(std::move(setup));
    ordered_json request = request_of("Hello", client);
    if (client < 0) request.erase("max_output_tokens");
    request["ignore_eos"] = true;
    EXPECT_EQ(post_json("/v1/responses", request).json["usage"]["output_tokens"], most) << server << " " << client;
  }
}

TEST_F(ResponsesApi, AllowedToolsHaveAMode) {
  start_with_items();
  const auto n_calls = [&](const ordered_json& choice) {
    ordered_json request = request_of("Hello", 200);
    request["temperature"] = 0;
    request["parallel_tool_calls"] = false;
    request["tools"] = ordered_json::array({up_function()});
    request["tool_choice"] = choice;
    const Answer answer = post_json("/v1/responses", request);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return std::ranges::count(answer.json["output"], "function_call", [](const auto& item) { return item["type"]; });
  };
  const ordered_json tools = ordered_json::array({{{"type", "function"}, {"name", "add"}}});
  EXPECT_EQ(n_calls({{"type", "allowed_tools"}, {"mode", "required"}, {"tools", tools}}), 1);
  EXPECT_EQ(n_calls({{"type", "allowed_tools"}, {"mode", "none"}, {"tools", tools}}), 0);
  EXPECT_EQ(n_calls("required"), 1);
  EXPECT_EQ(n_calls("none"), 0);
  const auto refuse = [&](const ordered_json& choice, const std::string& part) {
    ordered_json request = request_of("Hello", 1);
    request["tools"] = ordered_json::array({up_function()});
    request["tool_choice"] = choice;
    expect_refused(post_json("/v1/responses", request), 400, part);
  };
  refuse("most", "tool_choice");
  refuse({{"type", "allowed_tools"}, {"mode", "most"}, {"tools", tools}}, "tool_choice.mode");
  refuse({{"type", "allowed_tools"}}, "tool_choice.tools");
  refuse({{"type", "allowed_tools"}, {"tools", ordered_json::array({5})}}, "tool_choice.tools[0]");
}

TEST_F(ResponsesApi, AForcedFunctionIsCalled) {
  start_with_items();
  ordered_json request = request_of("Hi", 700);
  request["tools"] = {up_function(), {{"type", "web_search"}}};
  request["tool_choice"] = {{"type", "function"}, {"name", "add"}};
  request["parallel_tool_calls"] = false;
  const Answer answer = post_json("/v1/responses", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  ASSERT_EQ(answer.json["output"].size(), 1u) << answer.reply.body;
  const ordered_json& call = answer.json["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "add");
  EXPECT_EQ(answer.json["status"], "completed");
  EXPECT_TRUE(ordered_json::parse(call["arguments"].get<std::string>())["up"].is_boolean());
  const auto events = numbered_events(request);
  EXPECT_EQ(types_of(events),
            "created in_progress output_item.added function_call_arguments.delta function_call_arguments.done "
            "output_item.done completed ");
  EXPECT_EQ(events[2]["item"]["arguments"], "");
  EXPECT_EQ(events.back()["response"]["output"][0]["status"], "completed");
}

TEST_F(ResponsesApi, ReasoningIsAnItem) {
  ApiSetup setup;
  setup.served.chat_template =
      std::string(kItemTemplate) + "{% if add_generation_prompt %}{{ '<think>\\n' }}{% endif %}";
  start(std::move(setup));
  const auto events = numbered_events({{"input", "Hi"}, {"max_output_tokens", 12}});
  EXPECT_TRUE(
      types_of(events).starts_with("created in_progress output_item.added content_part.added "
                                   "reasoning_text.delta "))
      << types_of(events);
  const ordered_json& item = events.back()["response"]["output"][0];
  EXPECT_EQ(item["type"], "reasoning");
  EXPECT_EQ(item["content"][0]["type"], "reasoning_text");
  EXPECT_GT(events.back()["response"]["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

TEST_F(ResponsesApi, ItemsBecomeMessagesOfTheTemplate) {
  start_with_items();
  const auto input = ordered_json::parse(R"([
    {"role":"user","content":[{"type":"input_text","text":"One"}]},
    {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Look","annotations":[]}]},
    {"type":"function_call","call_id":"call_1","name":"add","arguments":"{\"up\":true}"},
    {"type":"function_call_output","call_id":"call_1","output":"3"}])");
  const int64_t n = n_input_tokens({{"input", input}, {"instructions", "Sys"}});
  const auto same = ordered_json::parse(R"([
    {"role":"system","content":"Sys"},
    {"role":"user","content":"One"},
    {"role":"assistant","content":"Look","reasoning_content":"Hm","tool_calls":[
      {"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"up\":true}"}}]},
    {"role":"tool","content":"3","tool_call_id":"call_1","name":"add"}])");
  ASSERT_EQ(post_json("/v1/chat/completions", {{"messages", same}, {"max_tokens", 1}}).status, 200);
  const Answer answer =
      post_json("/v1/responses", {{"input", input}, {"instructions", "Sys"}, {"max_output_tokens", 1}});
  EXPECT_EQ(answer.json["usage"]["input_tokens"], n);
  EXPECT_EQ(answer.json["usage"]["input_tokens_details"]["cached_tokens"], n - 1) << answer.reply.body;
}

TEST_F(ResponsesApi, AStoredResponseGoesOn) {
  start_with_items();
  const Answer first = post_json("/v1/responses", request_of("Hello", 6));
  const std::string id = first.json["id"];
  EXPECT_EQ(get("/v1/responses/" + id).json, first.json);

  ordered_json next = request_of("And then", 4);
  next["previous_response_id"] = id;
  const ordered_json in_full = {{{"role", "user"}, {"content", "Hello"}},
                                {{"role", "assistant"}, {"content", first.json["output_text"]}},
                                {{"role", "user"}, {"content", "And then"}}};
  EXPECT_EQ(n_input_tokens(next), n_input_tokens({{"input", in_full}}));
  EXPECT_EQ(post_json("/v1/responses", next).json["previous_response_id"], id);

  HttpClient client = connect();
  ASSERT_TRUE(client.send("DELETE /v1/responses/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_EQ(read(client).json["deleted"], true);
  EXPECT_EQ(get("/v1/responses/" + id).status, 404);
  expect_refused(post_json("/v1/responses", next), 404, "not found");
}

TEST_F(ResponsesApi, AResponseIsNotStoredAgainstTheClientsWill) {
  start_with_items();
  ordered_json request = request_of("Hello", 2);
  request["store"] = false;
  const std::string id = post_json("/v1/responses", request).json["id"];
  EXPECT_EQ(get("/v1/responses/" + id).status, 404);
}

TEST_F(ResponsesApi, TheOldestMessagesGoIfTheClientAgrees) {
  ApiSetup setup;
  setup.served.chat_template = kItemTemplate;
  setup.n_slots = 1;
  setup.n_ctx = 256;
  start(std::move(setup));
  ordered_json input = ordered_json::array();
  for (int i = 0; i < 40; ++i) {
    input.push_back({{"role", "user"}, {"content", "Once upon a time " + std::to_string(i)}});
    input.push_back({{"role", "assistant"}, {"content", "there was a dog"}});
  }
  input.push_back({{"role", "user"}, {"content", "Go on"}});
  ordered_json request = request_of(input, 2);
  expect_refused(post_json("/v1/responses", request), 400, "exceeds the available context size");
  request["truncation"] = "auto";
  const Answer answer = post_json("/v1/responses", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_LT(answer.json["usage"]["input_tokens"], 256);
  EXPECT_GT(answer.json["usage"]["input_tokens"], 128);
}

TEST_F(ResponsesApi, LogprobsAreThoseOfTheTokens) {
  start_with_items();
  ordered_json request = request_of("Hello", 5);
  request["top_logprobs"] = 2;
  request["include"] = {"message.output_text.logprobs"};
  const Answer whole = post_json("/v1/responses", request);
  const ordered_json& logprobs = whole.json["output"][0]["content"][0]["logprobs"];
  ASSERT_EQ(logprobs.size(), 5u) << whole.reply.body;
  EXPECT_EQ(logprobs[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(numbered_events(request).back()["response"]["output"][0]["content"][0]["logprobs"], logprobs);
}

TEST_F(ResponsesApi, BadResponseFieldsAreRefusedWithTheirPath) {
  start_with_items();
  const std::pair<const char*, const char*> bad[] = {
      {R"({})", "input"},
      {R"({"input":5})", "input"},
      {R"({"input":[]})", "input"},
      {R"({"input":[{"role":"robot","content":"a"}]})", "input[0].role"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"file:///etc/passwd"}]}]})",
       "input[0].content[0].type"},
      {R"({"input":[{"type":"web_search_call"}]})", "input[0].type"},
      {R"({"input":[{"type":"function_call","call_id":"a","name":"b"}]})", "input[0].arguments"},
      {R"({"input":"a","background":true})", "background"},
      {R"({"input":"a","conversation":"c"})", "conversation"},
      {R"({"input":"a","max_output_tokens":-3})", "max_output_tokens"},
      {R"({"input":"a","truncation":"most"})", "truncation"},
      {R"({"input":"a","tools":[{"type":"function","name":"a b"}]})", "tools[0].name"},
      {R"({"input":"a","tool_choice":"required"})", "tool_choice"},
      {R"({"input":"a","text":{"format":{"type":"json_schema","name":"x"}}})", "text.format.schema"},
      {R"({"input":"a","text":{"format":{"type":"json_schema","name":"x","schema":{"pattern":"("}}}})",
       "text.format.schema"},
  };
  for (const auto& [body, part] : bad) expect_refused(post("/v1/responses", std::string(body)), 400, part);
}

TEST(ResponseStore, DropsTheLeastRecentlyUsedBeyondItsLimit) {
  server::ResponseStore store(4096);
  const std::string text(1000, 'a');
  for (const char* id : {"1", "2"}) store.put({.id = id, .client = "a", .object = text});
  EXPECT_TRUE(store.find("1", "a"));
  store.put({.id = "3", .client = "a", .object = text});
  EXPECT_FALSE(store.find("2", "a"));
  EXPECT_TRUE(store.find("1", "a"));
  EXPECT_TRUE(store.find("3", "a"));
  store.put({.id = "4", .client = "a", .object = std::string(5000, 'a')});
  EXPECT_FALSE(store.find("4", "a"));
}

TEST(ResponseStore, ShowsAResponseToItsClientOnly) {
  server::ResponseStore store(4096);
  store.put({.id = "1", .client = "a"});
  EXPECT_FALSE(store.find("1", "b"));
  EXPECT_FALSE(store.erase("1", "b"));
  EXPECT_TRUE(store.erase("1", "a"));
  EXPECT_FALSE(store.find("1", "a"));
}

}  // namespace
}  // namespace tessera
