// Fields of requests whose values show in the slots, in the prompt or in the form of the answer.
#include <gtest/gtest.h>

#include "tests/server/api_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr const char* kCallingTemplate =
    "{% if tools %}{{ tools|tojson }}\n{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}{% for call in message.tool_calls %}<tool_call>\n{{ call.function|tojson }}\n</tool_call>"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const ordered_json kHi = ordered_json::array({{{"role", "user"}, {"content", "Hi"}}});

ordered_json flag_parameters() {
  return {{"type", "object"},
          {"properties", {{"up", {{"type", "boolean"}}}}},
          {"required", {"up"}},
          {"additionalProperties", false}};
}

ordered_json flag_function(const std::string& name) {
  return {{"type", "function"}, {"function", {{"name", name}, {"parameters", flag_parameters()}}}};
}

class RequestFields : public ApiTest {
 protected:
  void start_one(ApiSetup setup = {}) {
    server_.reset();
    setup.n_slots = 1;
    start(std::move(setup));
  }
  void start_calling() {
    ApiSetup setup;
    setup.served.chat_template = kCallingTemplate;
    start_one(std::move(setup));
  }
  static ApiSetup setup_with(const server::GenerationFields& defaults) {
    ApiSetup setup;
    setup.options.api.defaults = defaults;
    return setup;
  }

  /// Sends a request whose answer is one letter, and returns what the slot shows of it afterwards.
  ordered_json slot_after(const std::string& path, ordered_json body, const std::string& fields = "") const {
    body["messages"] = kHi;
    body["grammar"] = "root ::= \"a\"";
    const Answer answer = post(path, body.dump(), fields);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return get("/slots", fields).json[0];
  }
  ordered_json message_params(const ordered_json& body) const { return slot_after("/v1/messages", body)["params"]; }

  ordered_json chat_message(const ordered_json& fields) const {
    ordered_json body = fields;
    body["messages"] = kHi;
    body["temperature"] = 0;
    if (!body.contains("max_tokens")) body["max_tokens"] = 300;
    const Answer answer = post_json("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json["choices"][0]["message"];
  }
};

TEST_F(RequestFields, AMessageOfAnthropicHasAMostNumberOfTokens) {
  start_one();
  EXPECT_EQ(message_params(ordered_json::object())["n_predict"], 4096);
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"})
    EXPECT_EQ(message_params({{name, 5000}})["n_predict"], 5000) << name;
  for (const auto& [given, most] : {std::pair(7, 7), {4096, 4096}, {5000, 4096}, {0, 0}}) {
    server::GenerationFields defaults;
    defaults.n_predict = given;
    start_one(setup_with(defaults));
    EXPECT_EQ(message_params(ordered_json::object())["n_predict"], most);
  }
}

TEST_F(RequestFields, TheTemperatureOfAnthropicIsOneUnlessTheServerHasItsOwn) {
  start_one();
  EXPECT_EQ(message_params(ordered_json::object())["temperature"], 1);
  EXPECT_EQ(message_params({{"temperature", 0.25}})["temperature"], 0.25);
  server::GenerationFields defaults;
  defaults.sampling.temp = 0.5f;
  start_one(setup_with(defaults));
  EXPECT_EQ(message_params(ordered_json::object())["temperature"], 0.5);
}

TEST_F(RequestFields, ServiceTiersArePriorities) {
  const auto priority_of = [&](const ordered_json& body, const std::string& fields = "") {
    return slot_after("/v1/chat/completions", body, fields)["priority"].get<int>();
  };
  start_one();
  EXPECT_EQ(priority_of({}), 0);
  EXPECT_EQ(priority_of({{"service_tier", "flex"}}), 5);
  EXPECT_EQ(priority_of({{"service_tier", "default"}}), 0);
  EXPECT_EQ(priority_of({{"service_tier", "priority"}}), 0);  // a client without a key may not
  EXPECT_EQ(priority_of({{"priority", 3}}), 3);
  ApiSetup setup;
  setup.options.http.api_keys = {"secret"};
  start_one(std::move(setup));
  const std::string key = "Authorization: Bearer secret\r\n";
  EXPECT_EQ(priority_of({{"service_tier", "priority"}}, key), -5);
  EXPECT_EQ(priority_of({{"service_tier", "flex"}}, key), 5);
  EXPECT_EQ(priority_of({{"priority", -7}}, key), -7);
}

TEST_F(RequestFields, AToolCanBeChosen) {
  start_calling();
  const ordered_json tools = ordered_json::array({flag_function("add"), flag_function("sub"), flag_function("mul")});
  const auto called = [&](const ordered_json& choice) {
    const ordered_json message =
        chat_message({{"tools", tools}, {"tool_choice", choice}, {"parallel_tool_calls", false}});
    return message.contains("tool_calls") ? message["tool_calls"][0]["function"]["name"].get<std::string>() : "";
  };
  for (const char* name : {"add", "sub", "mul"}) {
    EXPECT_EQ(called({{"type", "function"}, {"function", {{"name", name}}}}), name);
    for (const ordered_json& tool : {flag_function(name), ordered_json{{"type", "function"}, {"name", name}}})
      EXPECT_EQ(called({{"type", "allowed_tools"},
                        {"allowed_tools", {{"mode", "required"}, {"tools", ordered_json::array({tool})}}}}),
                name);
  }
  const auto refuse = [&](const ordered_json& choice, const std::string& part) {
    expect_refused(post_json("/v1/chat/completions", {{"messages", kHi}, {"tools", tools}, {"tool_choice", choice}}),
                   400, part);
  };
  refuse("most", "tool_choice");
  refuse({{"type", "custom"}}, "allowed_tools");
  refuse({{"type", "function"}}, "tool_choice.function");
  refuse({{"type", "function"}, {"function", {{"name", "div"}}}}, "no tool named 'div'");
  refuse({{"type", "allowed_tools"}}, "tool_choice.allowed_tools");
  refuse({{"type", "allowed_tools"}, {"allowed_tools", {{"tools", ordered_json::array({5})}}}},
         "tool_choice.allowed_tools.tools[0]");
}

// The bias lets the model prefer a further call to the end of its reply.
TEST_F(RequestFields, SeveralToolsAreCalledUnlessTheClientWantsOne) {
  start_calling();
  const ordered_json bias = ordered_json::array({ordered_json::array({"<", 50})});
  const auto n_chat = [&](ordered_json body) {
    body["tools"] = ordered_json::array({flag_function("add")});
    body["tool_choice"] = "required";
    body["logit_bias"] = bias;
    return chat_message(body)["tool_calls"].size();
  };
  EXPECT_GT(n_chat(ordered_json::object()), 1u);
  EXPECT_EQ(n_chat({{"parallel_tool_calls", false}}), 1u);
  const auto n_message = [&](ordered_json choice) {
    choice["type"] = "any";
    const Answer answer = post_json(
        "/v1/messages", {{"messages", kHi},
                         {"max_tokens", 300},
                         {"temperature", 0},
                         {"logit_bias", bias},
                         {"tools", ordered_json::array({{{"name", "add"}, {"input_schema", flag_parameters()}}})},
                         {"tool_choice", choice}});
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json["content"].size();
  };
  EXPECT_GT(n_message(ordered_json::object()), 1u);
  EXPECT_EQ(n_message({{"disable_parallel_tool_use", true}}), 1u);
  const auto n_items = [&](ordered_json body) {
    body["input"] = "Hi";
    body["max_output_tokens"] = 300;
    body["temperature"] = 0;
    body["logit_bias"] = bias;
    body["tools"] = ordered_json::array({{{"type", "function"}, {"name", "add"}, {"parameters", flag_parameters()}}});
    body["tool_choice"] = "required";
    const Answer answer = post_json("/v1/responses", body);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json["output"].size();
  };
  EXPECT_GT(n_items(ordered_json::object()), 1u);
  EXPECT_EQ(n_items({{"parallel_tool_calls", false}}), 1u);
}

TEST_F(RequestFields, ASeedOfZeroIsOne) {
  start_one();
  const auto seed_of = [&](const ordered_json& seed) {
    const Answer answer = post_json("/completion", {{"prompt", "a"}, {"n_predict", 1}, {"seed", seed}});
    return answer.json["generation_settings"]["seed"].get<int64_t>();
  };
  EXPECT_EQ(seed_of(0), 0);
  EXPECT_EQ(seed_of(4294967294), 4294967294);
  EXPECT_NE(seed_of(-1), -1);
  EXPECT_NE(seed_of(-1), seed_of(4294967295));
}

TEST_F(RequestFields, TokensAreThoseOfTheVocabulary) {
  start_one();
  const int64_t n_vocab = get("/v1/models").json["data"][0]["meta"]["n_vocab"];
  const ordered_json last = ordered_json::array({n_vocab - 1}), beyond = ordered_json::array({n_vocab});
  EXPECT_EQ(post_json("/detokenize", {{"tokens", last}}).status, 200);
  expect_refused(post_json("/detokenize", {{"tokens", beyond}}), 400, "tokens[0]");
  const auto generate = [&](const ordered_json& context) {
    return post_json("/api/generate",
                     {{"prompt", "a"}, {"context", context}, {"stream", false}, {"options", {{"num_predict", 1}}}});
  };
  EXPECT_EQ(generate(last).status, 200);
  EXPECT_EQ(generate(beyond).status, 400);
}

TEST_F(RequestFields, SpecialTokensAreAddedOnDemand) {
  start_one();
  const auto n_tokens = [&](const char* body) { return post("/tokenize", body).json["tokens"].size(); };
  const size_t n = n_tokens(R"({"content":"The cat"})");
  EXPECT_EQ(n_tokens(R"({"content":"The cat","add_special":false})"), n);
  EXPECT_EQ(n_tokens(R"({"content":"The cat","add_special":true})"), n + 1);
  EXPECT_EQ(n_tokens(R"({"content":"<s>","parse_special":true})"), 1u);
  EXPECT_EQ(n_tokens(R"({"content":"<s>"})"), 1u);
  EXPECT_GT(n_tokens(R"({"content":"<s>","parse_special":false})"), 1u);
}

TEST_F(RequestFields, AClientCanWantAFreeSlot) {
  start_one({.n_ctx = 1 << 17});
  EXPECT_EQ(get("/slots?fail_on_no_slot=1").status, 200);
  HttpClient client = connect();
  client.post("/completion", R"({"prompt":"a","stream":true,"ignore_eos":true,"n_predict":-1})");
  EXPECT_TRUE(client.read_piece(client.read_head()));
  expect_refused(get("/slots?fail_on_no_slot=1"), 503, "no slot available");
  const Answer busy = get("/slots?fail_on_no_slot=0");
  EXPECT_EQ(busy.status, 200);
  EXPECT_EQ(busy.json[0]["next_token"][0]["n_remain"], -1);
  EXPECT_EQ(get("/slots").status, 200);
  client.close();
  wait_until_idle();
  expect_refused(post("/slots/7?action=erase", ""), 400, "want 0 to 0");
}

TEST_F(RequestFields, PropertiesOfThePageAreFixed) {
  start_one();
  const ordered_json props = get("/props").json;
  EXPECT_EQ(props["cors_proxy_enabled"], false);
  EXPECT_EQ(props["endpoint_props"], false);
}

// --- the Ollama API

TEST_F(RequestFields, TheAnswersOfOllamaHaveABound) {
  server::GenerationFields defaults;
  defaults.n_predict = 9;
  start_one(setup_with(defaults));
  const auto n_generated = [&](ordered_json options) {
    options["ignore_eos"] = true;
    const Answer answer =
        post_json("/api/generate", {{"prompt", "Once"}, {"raw", true}, {"stream", false}, {"options", options}});
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json["eval_count"].get<int64_t>();
  };
  EXPECT_EQ(n_generated({{"num_predict", 4}}), 4);
  EXPECT_EQ(n_generated({{"num_predict", 20}}), 9);
  EXPECT_EQ(n_generated({{"num_predict", -1}}), 9);
  EXPECT_EQ(n_generated({{"num_predict", -2}}), 9);
  EXPECT_EQ(n_generated({{"num_predict", 0}}), 0);
}

TEST_F(RequestFields, OptionsOfOllamaCannotAskForCommentsInTheStream) {
  start_one();
  const Answer answer = post("/api/generate", R"({"prompt":"Once","raw":true,"return_progress":true,"n":1,
      "options":{"num_predict":2,"return_progress":true,"ignore_eos":true}})");
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_EQ(answer.reply.body.find("progress"), std::string::npos);
  EXPECT_EQ(std::ranges::count(answer.reply.body, '\n'), 3) << answer.reply.body;  // two tokens and the end
  EXPECT_EQ(std::ranges::count(answer.reply.body, '{'), 3) << answer.reply.body;
}

TEST_F(RequestFields, ShowTellsNumbersAndShortLists) {
  EditableModel model(story_model());
  const std::vector<int32_t> shown(64, 7), long_one(65, 7);
  model.builder.set_array("test.short", shown);
  model.builder.set_array("test.long", long_one);
  model.builder.set("test.f32", 0.1f);
  model.builder.set("test.f64", 0.1);
  model.builder.set("test.large", uint64_t{18446744073709551615u});
  model.builder.set("test.flag", true);
  start_one({.model = model.write("ollama_numbers.gguf")});
  const ordered_json brief = post("/api/show", R"({"model":"ollama_numbers"})").json["model_info"];
  EXPECT_EQ(brief["test.short"].size(), 64u);
  EXPECT_TRUE(brief["test.long"].is_null());
  EXPECT_EQ(brief["test.f32"].dump(), "0.1");
  EXPECT_EQ(brief["test.f64"].dump(), "0.1");
  EXPECT_EQ(brief["test.large"], 18446744073709551615u);
  EXPECT_EQ(brief["test.flag"], true);
  const ordered_json verbose = post("/api/show", R"({"model":"ollama_numbers","verbose":true})").json["model_info"];
  EXPECT_EQ(verbose["test.long"].size(), 65u);
}

}  // namespace
}  // namespace tessera
