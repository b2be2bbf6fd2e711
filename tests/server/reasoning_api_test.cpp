// The bound of a reply's reasoning over HTTP: budgets, their message, and the control of a running stream.
#include <gtest/gtest.h>

#include "tests/server/api_support.h"

namespace tessera {
namespace {

using namespace testing;

// The reply begins inside of the reasoning, which the model of the tests never ends by itself.
constexpr const char* kThinkingTemplate =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    "{% if message is defined and message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif "
    "%}";

class ReasoningApi : public ApiTest {
 protected:
  void start_thinking(ApiSetup setup = {}) {
    setup.served.chat_template = kThinkingTemplate;
    start(std::move(setup));
  }

  static ordered_json request(int n_tokens = 40) {
    return {{"messages", {{{"role", "user"}, {"content", "Hello"}}}},
            {"max_tokens", n_tokens},
            {"seed", 3},
            {"ignore_eos", true}};
  }

  ordered_json message(const ordered_json& body) {
    const Answer answer = post_json("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    usage_ = answer.json["usage"];
    return answer.json["choices"][0]["message"];
  }

  static std::string reasoning_of(const ordered_json& message) { return message.value("reasoning_content", ""); }
  static std::string content_of(const ordered_json& message) {
    return message.contains("content") && message["content"].is_string() ? message["content"].get<std::string>() : "";
  }

  ordered_json usage_;
};

TEST_F(ReasoningApi, ABudgetEndsTheReasoningAfterItsTokens) {
  start_thinking();
  ordered_json body = request();
  const auto unbounded = message(body);
  EXPECT_EQ(content_of(unbounded), "");
  body["max_tokens"] = 6;
  const std::string six = reasoning_of(message(body));
  ASSERT_FALSE(six.empty());
  EXPECT_EQ(usage_["completion_tokens_details"]["reasoning_tokens"], 6);
  body["max_tokens"] = 40;
  body["reasoning_budget_tokens"] = 6;
  body["reasoning_budget_message"] = "Enough, I must answer.";  // the tokenizer adds a space
  const auto bounded = message(body);
  EXPECT_EQ(reasoning_of(bounded), six + " Enough, I must answer.");
  EXPECT_NE(content_of(bounded), "");
  EXPECT_EQ(usage_["completion_tokens"], 40);
  body.erase("reasoning_budget_tokens");
  body["thinking_budget_tokens"] = 6;
  EXPECT_EQ(message(body), bounded);
  body["logprobs"] = true;  // now each token has its row of logits
  EXPECT_EQ(message(body), bounded);
  body.erase("logprobs");
  std::string reasoning, content;
  for (const auto& event : stream("/v1/chat/completions", body)) {
    reasoning += reasoning_of(event["choices"][0]["delta"]);
    content += content_of(event["choices"][0]["delta"]);
  }
  EXPECT_EQ(reasoning, reasoning_of(bounded));
  EXPECT_EQ(content, content_of(bounded));
}

TEST_F(ReasoningApi, ABudgetOfZeroLeavesNone) {
  start_thinking();
  ordered_json body = request();
  body["reasoning_budget_tokens"] = 0;
  const auto bounded = message(body);
  EXPECT_EQ(reasoning_of(bounded), "");
  EXPECT_NE(content_of(bounded), "");
}

TEST_F(ReasoningApi, TheServerHasADefault) {
  ApiSetup setup;
  setup.options.api.defaults.reasoning_budget = 3;
  setup.options.api.defaults.reasoning_budget_message = " Stop.";
  start_thinking(std::move(setup));
  EXPECT_TRUE(reasoning_of(message(request())).ends_with(" Stop."));
  ordered_json body = request();
  body["reasoning_budget_tokens"] = -1;
  EXPECT_EQ(content_of(message(body)), "");
  const Answer messages =
      post_json("/v1/messages", ordered_json{{"messages", body["messages"]},
                                             {"max_tokens", 40},
                                             {"ignore_eos", true},
                                             {"thinking", {{"type", "enabled"}, {"budget_tokens", 9}}}});
  ASSERT_EQ(messages.json["content"].size(), 2u) << messages.reply.body;
  EXPECT_TRUE(messages.json["content"][0]["thinking"].get<std::string>().ends_with(" Stop."));
  EXPECT_EQ(messages.json["content"][1]["type"], "text");
}

TEST_F(ReasoningApi, AnAnswerWithASchemaFollows) {
  start_thinking();
  ordered_json body = request(200);
  body["reasoning_budget_tokens"] = 10;
  body["reasoning_budget_message"] = " So:";
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"name", "b"}, {"schema", {{"type", "boolean"}}}}}};
  const auto bounded = message(body);
  EXPECT_TRUE(reasoning_of(bounded).ends_with(" So:")) << bounded;
  EXPECT_TRUE(content_of(bounded) == "true" || content_of(bounded) == "false") << bounded;
}

// A context that no test fills, so the stream runs until its client has seen enough.
TEST_F(ReasoningApi, AClientEndsTheReasoningOfItsStream) {
  ApiSetup setup;
  setup.n_ctx = int64_t{1} << 17;
  setup.options.http.api_keys = {"a", "b"};
  start_thinking(std::move(setup));
  constexpr const char* kOwn = "Authorization: Bearer a\r\n";
  ordered_json body = request(-1);
  body["stream"] = true;
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/v1/chat/completions", body.dump(), kOwn));
  const HttpReply head = client.read_head();
  ASSERT_EQ(head.status, 200);
  std::string id;
  const auto read_until = [&](const char* member) {
    while (const auto piece = client.read_piece(head)) {
      for (const auto& event : events_of(*piece)) {
        id = event["id"];
        if (event["choices"][0]["delta"].value(member, ordered_json()).is_string()) return true;
      }
    }
    return false;
  };
  ASSERT_TRUE(read_until("reasoning_content"));
  const auto control = [&](const ordered_json& asked, const char* fields) {
    return post("/v1/chat/completions/control", asked.dump(), fields);
  };
  const ordered_json end = {{"id", id}, {"action", "reasoning_end"}};
  const Answer foreign = control(end, "Authorization: Bearer b\r\n");
  EXPECT_EQ(foreign.json["success"], false) << foreign.reply.body;
  EXPECT_NE(foreign.json["message"].get<std::string>().find("No chat stream"), std::string::npos);
  EXPECT_EQ(control({{"id", "chatcmpl-x"}, {"action", "reasoning_end"}}, kOwn).json["success"], false);
  expect_refused(control({{"id", id}, {"action", "stop"}}, kOwn), 400, "'action'");
  expect_refused(control({{"action", "reasoning_end"}}, kOwn), 400, "'id'");
  EXPECT_EQ(control(end, kOwn).reply.body, R"({"success":true})");
  EXPECT_TRUE(read_until("content"));
  const Answer late = control(end, kOwn);
  EXPECT_EQ(late.json["success"], false);
  EXPECT_NE(late.json["message"].get<std::string>().find("not in its reasoning"), std::string::npos);
}

}  // namespace
}  // namespace tessera
