// Chat completions and completions of the OpenAI API over HTTP.
#include <gtest/gtest.h>

#include "tests/server/api_support.h"

namespace tessera {
namespace {

using namespace testing;

ordered_json user_says(const std::string& text) { return ordered_json::array({{{"role", "user"}, {"content", text}}}); }

constexpr const char* kToolTemplate =
    "{% if tools %}{{ tools|tojson }}\n{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}{% for call in message.tool_calls %}<tool_call>\n{{ call.function|tojson }}\n</tool_call>"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class OpenAiApi : public ApiTest {};

TEST_F(OpenAiApi, AChatAnswersWithAMessage) {
  start();
  const Answer answer =
      post_json("/v1/chat/completions", ordered_json{{"messages", user_says("Hello")}, {"max_tokens", 6}, {"seed", 1}});
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_EQ(answer.json["object"], "chat.completion");
  EXPECT_TRUE(answer.json["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(answer.json["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer.json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer.json["usage"]["completion_tokens"], 6);
  const int64_t n_prompt = answer.json["usage"]["prompt_tokens"];
  EXPECT_EQ(answer.json["usage"]["total_tokens"], n_prompt + 6);
  const Answer counted = post_json("/v1/chat/completions/input_tokens", ordered_json{{"messages", user_says("Hello")}});
  EXPECT_EQ(counted.json["input_tokens"], n_prompt);
}

TEST_F(OpenAiApi, AStreamAddsUpToTheMessage) {
  start();
  const ordered_json request = {
      {"messages", user_says("Hello")}, {"max_tokens", 12}, {"seed", 1}, {"stream_options", {{"include_usage", true}}}};
  const Answer whole = post_json("/v1/chat/completions", request);
  bool is_done = false;
  const auto events = stream("/v1/chat/completions", request, &is_done);
  EXPECT_TRUE(is_done);
  EXPECT_EQ(events.front()["choices"][0]["delta"], ordered_json::parse(R"({"role":"assistant","content":null})"));
  std::string text;
  for (const auto& event : events)
    if (!event["choices"].empty() && event["choices"][0]["delta"].contains("content") &&
        event["choices"][0]["delta"]["content"].is_string())
      text += event["choices"][0]["delta"]["content"];
  EXPECT_EQ(text, whole.json["choices"][0]["message"]["content"]);
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 12);
}

TEST_F(OpenAiApi, LogprobsAreThoseOfTheDeltas) {
  start();
  ordered_json request = {
      {"messages", user_says("Hello")}, {"max_tokens", 9}, {"seed", 1}, {"logprobs", true}, {"top_logprobs", 2}};
  const Answer whole = post_json("/v1/chat/completions", request);
  ASSERT_EQ(whole.json["choices"][0]["logprobs"]["content"].size(), 9u);
  EXPECT_EQ(whole.json["choices"][0]["logprobs"]["content"][0]["top_logprobs"].size(), 2u);
  for (const auto& event : stream("/v1/chat/completions", request)) {
    if (!event["choices"][0].contains("logprobs")) continue;
    std::string texts;
    for (const auto& one : event["choices"][0]["logprobs"]["content"]) texts += one["token"];
    EXPECT_EQ(texts, event["choices"][0]["delta"]["content"]);
  }
}

TEST_F(OpenAiApi, LogprobsMayBeThoseOfTheTokensAlone) {
  start();
  const auto content_of = [&](const ordered_json& fields) {
    ordered_json request = {{"messages", user_says("Hello")}, {"max_tokens", 4}, {"seed", 1}};
    request.update(fields);
    const ordered_json choice = post_json("/v1/chat/completions", request).json["choices"][0];
    return choice.contains("logprobs") && choice["logprobs"].is_object() ? choice["logprobs"]["content"]
                                                                         : ordered_json::array();
  };
  const ordered_json alone = content_of({{"logprobs", true}, {"top_logprobs", 0}});
  ASSERT_EQ(alone.size(), 4u);
  for (const auto& one : alone) EXPECT_TRUE(one["top_logprobs"].empty());
  EXPECT_EQ(content_of({{"logprobs", true}})[0]["top_logprobs"].size(), 20u);
  EXPECT_TRUE(content_of({{"logprobs", false}}).empty());
}

TEST_F(OpenAiApi, UsageCountsEachPromptOnce) {
  start();
  const ordered_json request = {
      {"prompt", {"Once upon a time", "The little dog ran"}}, {"max_tokens", 2}, {"n", 2}, {"temperature", 0}};
  const ordered_json first = post_json("/v1/completions", request).json["usage"];
  const ordered_json second = post_json("/v1/completions", request).json["usage"];
  EXPECT_EQ(second["prompt_tokens"], first["prompt_tokens"]);
  EXPECT_EQ(second["completion_tokens"], 8);
  EXPECT_EQ(second["prompt_tokens_details"]["cached_tokens"], second["prompt_tokens"].get<int64_t>() - 2)
      << second;  // the last token of each is computed
}

// The marks of reply formats are special tokens, so a chat shows those that belong to no format. A text leaves them
// out.
TEST_F(OpenAiApi, SpecialTokensOfAChatAreShown) {
  start();
  const ordered_json bias = {{"1", 100}};  // <s>
  const Answer chat = post_json("/v1/chat/completions",
                                ordered_json{{"messages", user_says("Hi")}, {"max_tokens", 3}, {"logit_bias", bias}});
  EXPECT_EQ(chat.json["choices"][0]["message"]["content"], "<s><s><s>") << chat.reply.body;
  const Answer text =
      post_json("/v1/completions", ordered_json{{"prompt", "Hi"}, {"max_tokens", 3}, {"logit_bias", bias}});
  EXPECT_EQ(text.json["choices"][0]["text"], "") << text.reply.body;
}

TEST_F(OpenAiApi, ChoicesHaveTheirOwnSeeds) {
  start();
  const Answer two = post_json("/v1/chat/completions",
                               ordered_json{{"messages", user_says("Hi")}, {"max_tokens", 8}, {"seed", 4}, {"n", 2}});
  ASSERT_EQ(two.json["choices"].size(), 2u);
  const Answer second =
      post_json("/v1/chat/completions", ordered_json{{"messages", user_says("Hi")}, {"max_tokens", 8}, {"seed", 5}});
  EXPECT_EQ(two.json["choices"][1]["message"], second.json["choices"][0]["message"]);
  EXPECT_EQ(two.json["usage"]["completion_tokens"], 16);
}

TEST_F(OpenAiApi, ASchemaHolds) {
  start();
  const ordered_json schema = {{"type", "object"},
                               {"properties", {{"ok", {{"type", "boolean"}}}}},
                               {"required", {"ok"}},
                               {"additionalProperties", false}};
  const Answer answer = post_json(
      "/v1/chat/completions",
      ordered_json{
          {"messages", user_says("Hi")},
          {"max_tokens", 60},
          {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}});
  const auto value =
      ordered_json::parse(answer.json["choices"][0]["message"]["content"].get<std::string>(), nullptr, false);
  EXPECT_TRUE(value.is_object() && value["ok"].is_boolean()) << answer.reply.body;
  EXPECT_EQ(answer.json["choices"][0]["finish_reason"], "stop");
}

TEST_F(OpenAiApi, AForcedToolIsCalledWithRightArguments) {
  ApiSetup setup;
  setup.served.chat_template = kToolTemplate;
  start(std::move(setup));
  const ordered_json tool = {{"type", "function"},
                             {"function",
                              {{"name", "add"},
                               {"parameters",
                                {{"type", "object"},
                                 {"properties", {{"up", {{"type", "boolean"}}}}},
                                 {"required", {"up"}},
                                 {"additionalProperties", false}}}}}};
  ordered_json request = {{"messages", user_says("Hi")},
                          {"max_tokens", 700},
                          {"tools", {tool}},
                          {"parallel_tool_calls", false},
                          {"tool_choice", "required"}};
  const Answer answer = post_json("/v1/chat/completions", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const auto& message = answer.json["choices"][0]["message"];
  ASSERT_EQ(message["tool_calls"].size(), 1u) << answer.reply.body;
  EXPECT_EQ(answer.json["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "add");
  const auto arguments = ordered_json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["up"].is_boolean());
  std::string name, streamed;
  for (const auto& event : stream("/v1/chat/completions", request)) {
    const auto& delta = event["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    const auto& function = delta["tool_calls"][0]["function"];
    if (function.contains("name")) name = function["name"];
    streamed += function["arguments"];
  }
  EXPECT_EQ(name, "add");
  EXPECT_TRUE(ordered_json::parse(streamed, nullptr, false)["up"].is_boolean()) << streamed;
}

// Code after the mark of built-in tools has no mark of its end: it ends with the reply. The model prefers "|" to all
// else, and so code to a call with marks; in code it writes " the the the".
TEST_F(OpenAiApi, CodeThatIsCutShortIsNoCall) {
  ApiSetup setup;
  setup.served.chat_template =
      "{# <|python_tag|> <function= #}{% for message in messages %}{{ message.content }}\n{% endfor %}";
  start(std::move(setup));
  ordered_json request = {{"messages", user_says("Hi")},
                          {"max_tokens", 60},
                          {"temperature", 0},
                          {"logit_bias", ordered_json::parse(R"([["|", 30], ["the", 60]])")},
                          {"tools", {{{"type", "function"}, {"function", {{"name", "python"}}}}}},
                          {"tool_choice", "required"}};
  const auto choice_of = [&] { return post_json("/v1/chat/completions", request).json["choices"][0]; };
  const ordered_json cut = choice_of();
  EXPECT_EQ(cut["finish_reason"], "length") << cut;
  EXPECT_FALSE(cut["message"].contains("tool_calls")) << cut;
  EXPECT_TRUE(cut["message"]["content"].get<std::string>().starts_with("<|python_tag|> the the")) << cut;

  const auto expect_code = [&](const std::string& code) {
    const ordered_json whole = choice_of();
    EXPECT_EQ(whole["finish_reason"], "tool_calls") << whole;
    ASSERT_TRUE(whole["message"].contains("tool_calls")) << whole;
    EXPECT_EQ(whole["message"]["tool_calls"][0]["function"]["arguments"], R"({"code": ")" + code + R"("})");
  };
  request["stop"] = "the the";
  expect_code(" ");
  request.erase("stop");
  request["logit_bias"].push_back({2, 90});  // the end of the text
  expect_code(" the");
}

// `__verbose` is what POST /completion answers: its fields, in their order.
TEST_F(OpenAiApi, VerboseAnswersContainTheNativeObject) {
  start();
  const auto keys_of = [](const ordered_json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    return keys;
  };
  const ordered_json common{{"max_tokens", 4}, {"seed", 1}, {"temperature", 0}};
  ordered_json completion = common;
  completion["prompt"] = "Once";
  const ordered_json native = post_json("/completion", completion).json;
  ordered_json chat = common;
  chat["messages"] = user_says("Hi");
  for (auto& [path, request] : {std::pair{"/v1/completions", completion}, std::pair{"/v1/chat/completions", chat}}) {
    EXPECT_FALSE(post_json(path, request).json.contains("__verbose"));
    ordered_json verbose_request = request;
    verbose_request["verbose"] = true;
    const ordered_json verbose = post_json(path, verbose_request).json["__verbose"];
    EXPECT_EQ(keys_of(verbose), keys_of(native)) << path;
    EXPECT_EQ(verbose["generation_settings"]["seed"], 1);
    const ordered_json streamed = stream(path, verbose_request).back()["__verbose"];
    EXPECT_EQ(keys_of(streamed), keys_of(native)) << path;
    EXPECT_EQ(streamed["prompt"], verbose["prompt"]);
  }
  completion["verbose"] = true;
  const ordered_json verbose = post_json("/v1/completions", completion).json["__verbose"];
  for (const char* same : {"content", "prompt", "tokens_predicted", "stop_type", "generation_settings"})
    EXPECT_EQ(verbose[same], native[same]) << same;
}

TEST_F(OpenAiApi, ALastAnswerIsContinued) {
  start();
  ordered_json messages = user_says("Tell me");
  messages.push_back({{"role", "assistant"}, {"content", "Once upon"}});
  const auto is_continued = [&](ordered_json fields) {
    fields["messages"] = messages;
    return post_json("/apply-template", fields).json["prompt"].get<std::string>().ends_with("Once upon");
  };
  EXPECT_TRUE(is_continued({}));
  EXPECT_TRUE(is_continued({{"continue_final_message", true}}));
  EXPECT_TRUE(is_continued({{"continue_final_message", true}, {"add_generation_prompt", false}}));
  EXPECT_FALSE(is_continued({{"continue_final_message", false}}));
  EXPECT_FALSE(is_continued({{"add_generation_prompt", false}}));
  EXPECT_FALSE(is_continued({{"add_generation_prompt", true}}));
}

TEST_F(OpenAiApi, TextsOfMessagesAreNoSpecialTokens) {
  start();
  const Answer plain = post_json("/v1/chat/completions/input_tokens", ordered_json{{"messages", user_says("</s>")}});
  const Answer other = post_json("/v1/chat/completions/input_tokens", ordered_json{{"messages", user_says("")}});
  EXPECT_GT(plain.json["input_tokens"], other.json["input_tokens"].get<int64_t>() + 1);
}

TEST_F(OpenAiApi, BadMessagesAreRefusedWithTheirPath) {
  start();
  const std::pair<const char*, const char*> bad[] = {
      {R"({})", "messages"},
      {R"({"messages":5})", "messages"},
      {R"({"messages":[5]})", "messages[0]"},
      {R"({"messages":[{"content":"a"}]})", "messages[0].role"},
      {R"({"messages":[{"role":7,"content":"a"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"robot","content":"a"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]})",
       "not supported"},
      {R"({"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]})", "two messages"},
      {R"({"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"a\nb"}}]})",
       "tools[0].function.name"},
      {R"({"messages":[{"role":"user","content":"a"}],"tool_choice":"required"})", "tool_choice"},
      {R"({"messages":[{"role":"user","content":"a"}],"response_format":5})", "response_format"},
      {R"({"messages":[{"role":"user","content":"a"}],"top_logprobs":2})", "top_logprobs"},
      {R"({"messages":[{"role":"user","content":"a"}],"functions":[]})", "functions"},
      {R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"string","pattern":"("}}}})",
       "response_format"},
  };
  for (const auto& [body, part] : bad) expect_refused(post("/v1/chat/completions", std::string(body)), 400, part);
}

TEST_F(OpenAiApi, ACompletionHasTextAndLogprobs) {
  start();
  const ordered_json request = {{"prompt", "Once upon a time"}, {"max_tokens", 5}, {"temperature", 0}, {"logprobs", 2}};
  const Answer answer = post_json("/v1/completions", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_EQ(answer.json["object"], "text_completion");
  const auto& choice = answer.json["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  ASSERT_EQ(choice["logprobs"]["tokens"].size(), 5u);
  EXPECT_EQ(choice["logprobs"]["text_offset"][0], 0);
  std::string joined;
  for (const auto& token : choice["logprobs"]["tokens"]) joined += token;
  EXPECT_EQ(joined, choice["text"]);
  bool is_done = false;
  std::string streamed;
  for (const auto& event : stream("/v1/completions", request, &is_done)) streamed += event["choices"][0]["text"];
  EXPECT_EQ(streamed, choice["text"]);
  EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace tessera
