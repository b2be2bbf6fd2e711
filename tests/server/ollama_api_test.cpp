// The Ollama API over HTTP.
#include <gtest/gtest.h>

#include <set>

#include "tests/server/api_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr const char* kOllamaTools =
    "{% if tools %}{{ tools|tojson }}\n{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}{% for call in message.tool_calls %}<tool_call>\n{{ call.function|tojson }}\n</tool_call>"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// The reply begins inside of the reasoning.
constexpr const char* kOllamaThinks =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}";

const ordered_json kHello = ordered_json::array({{{"role", "user"}, {"content", "Hello"}}});

class OllamaApi : public ApiTest {
 protected:
  /// The lines of a stream.
  std::vector<ordered_json> lines(const std::string& path, const ordered_json& body) const {
    const Answer answer = post_json(path, body);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    EXPECT_EQ(answer.reply.field("content-type"), "application/x-ndjson");
    EXPECT_TRUE(answer.reply.body.ends_with('\n'));
    std::vector<ordered_json> lines;
    for (size_t begin = 0, end; (end = answer.reply.body.find('\n', begin)) != std::string::npos; begin = end + 1) {
      lines.push_back(ordered_json::parse(answer.reply.body.substr(begin, end - begin), nullptr, false));
      EXPECT_TRUE(lines.back().is_object()) << answer.reply.body.substr(begin, end - begin);
    }
    return lines;
  }
  /// The answer without a stream.
  Answer whole(const std::string& path, ordered_json body) const {
    body["stream"] = false;
    return post_json(path, body);
  }
  /// Expects a refusal in the form of this API.
  static void expect_error(const Answer& answer, int status, const std::string& part) {
    EXPECT_EQ(answer.status, status) << answer.reply.body;
    ASSERT_TRUE(answer.json.is_object() && answer.json.size() == 1 && answer.json["error"].is_string())
        << answer.reply.body;
    EXPECT_NE(answer.json["error"].get<std::string>().find(part), std::string::npos) << answer.reply.body;
  }
  void start_with_template(const char* chat_template) {
    ApiSetup setup;
    setup.served.chat_template = chat_template;
    start(std::move(setup));
  }
};

TEST_F(OllamaApi, GenerateStreamsLinesThatAddUpToTheWholeAnswer) {
  start();
  const ordered_json request = {
      {"model", "story"}, {"prompt", "Once upon a time"}, {"options", {{"num_predict", 9}, {"seed", 4}}}};
  const auto streamed = lines("/api/generate", request);
  ASSERT_GE(streamed.size(), 3u);
  std::string text;
  for (size_t i = 0; i + 1 < streamed.size(); ++i) {
    EXPECT_EQ(streamed[i]["done"], false);
    EXPECT_EQ(streamed[i]["model"], "story");
    text += streamed[i]["response"];
  }
  const auto& last = streamed.back();
  EXPECT_EQ(last["done"], true);
  EXPECT_EQ(last["response"], "");
  EXPECT_EQ(last["done_reason"], "length");
  EXPECT_EQ(last["eval_count"], 9);
  for (const char* name : {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"})
    EXPECT_GE(last[name].get<int64_t>(), 1) << name;
  const Answer answer = whole("/api/generate", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_EQ(answer.json["response"], text);
  EXPECT_EQ(answer.json["context"], last["context"]);
  EXPECT_EQ(answer.json["context"].size(), answer.json["prompt_eval_count"].get<size_t>() + 9);
  std::vector<std::string> keys;
  for (const auto& [key, value] : answer.json.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"model", "created_at", "response", "done", "done_reason", "context",
                                            "total_duration", "load_duration", "prompt_eval_count",
                                            "prompt_eval_duration", "eval_count", "eval_duration"}));
}

TEST_F(OllamaApi, TimesAreThoseOfRfc3339) {
  start();
  const std::string time =
      whole("/api/generate", {{"prompt", "a"}, {"options", {{"num_predict", 1}}}}).json["created_at"];
  ASSERT_EQ(time.size(), 30u) << time;
  EXPECT_TRUE(time.starts_with("20"));
  EXPECT_EQ(time[4], '-');
  EXPECT_EQ(time[10], 'T');
  EXPECT_EQ(time[19], '.');
  EXPECT_EQ(time.back(), 'Z');
}

TEST_F(OllamaApi, ARawPromptIsTheOneOfACompletion) {
  start();
  const Answer raw =
      whole("/api/generate", {{"prompt", "The little dog"},
                              {"raw", true},
                              {"options", {{"num_predict", 12}, {"seed", 3}, {"min_p", 0.05}, {"top_p", 0.95}}}});
  const Answer native = post("/completion", R"({"prompt":"The little dog","n_predict":12,"seed":3})");
  EXPECT_EQ(raw.json["response"], native.json["content"]);
  EXPECT_FALSE(raw.json.contains("context"));
}

TEST_F(OllamaApi, SpecialTokensOfAChatAreShown) {
  start();
  const ordered_json options = {{"num_predict", 2}, {"logit_bias", {{1, 100}}}};  // <s>
  const Answer chat = whole("/api/chat", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"options", options}});
  EXPECT_EQ(chat.json["message"]["content"], "<s><s>") << chat.reply.body;
  EXPECT_EQ(whole("/api/generate", {{"prompt", "Hi"}, {"raw", true}, {"options", options}}).json["response"], "");
}

TEST_F(OllamaApi, ItsDefaultsAreItsOwn) {
  start();
  const auto text_with = [&](ordered_json options) {
    options["num_predict"] = 40;
    options["seed"] = 11;
    options["temperature"] = 1.5;
    return whole("/api/generate", {{"prompt", "Once"}, {"raw", true}, {"options", options}}).json["response"];
  };
  const auto own = text_with(ordered_json::object());
  EXPECT_EQ(own, text_with({{"top_p", 0.9}, {"min_p", 0}}));
  EXPECT_NE(own, text_with({{"top_p", 0.95}, {"min_p", 0.05}}));
}

TEST_F(OllamaApi, AContextContinuesTheConversation) {
  start();
  const ordered_json options = {{"num_predict", 5}, {"seed", 1}};
  const Answer first = whole("/api/generate", {{"prompt", "Hello"}, {"system", "Be kind"}, {"options", options}});
  ASSERT_EQ(first.status, 200) << first.reply.body;
  const Answer alone = whole("/api/generate", {{"prompt", "And then?"}, {"options", options}});
  const Answer next =
      whole("/api/generate", {{"prompt", "And then?"}, {"context", first.json["context"]}, {"options", options}});
  // The text begins once, so the second prompt has one token less than alone.
  EXPECT_EQ(next.json["prompt_eval_count"].get<size_t>(),
            first.json["context"].size() + alone.json["prompt_eval_count"].get<size_t>() - 1);
  for (size_t i = 0; i < first.json["context"].size(); ++i)
    EXPECT_EQ(next.json["context"][i], first.json["context"][i]);
}

TEST_F(OllamaApi, AStopStringIsInNeitherTextNorContext) {
  start();
  ordered_json request = {{"prompt", "Once upon a time"}, {"options", {{"num_predict", 30}, {"temperature", 0}}}};
  const std::string text = whole("/api/generate", request).json["response"];
  const std::string stop = text.substr(10, 3);
  request["options"]["stop"] = {stop};
  const Answer stopped = whole("/api/generate", request);
  EXPECT_EQ(stopped.json["response"], text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped.json["done_reason"], "stop");
  const std::string shown = post_json("/detokenize", ordered_json{{"tokens", stopped.json["context"]}}).json["content"];
  EXPECT_FALSE(shown.ends_with(stop));
}

TEST_F(OllamaApi, TheContextEndsBeforeTheStopString) {
  start();
  ordered_json request = {
      {"prompt", "Once upon a time"}, {"logprobs", true}, {"options", {{"num_predict", 30}, {"temperature", 0}}}};
  const Answer all = whole("/api/generate", request);
  const size_t n_prompt = all.json["prompt_eval_count"];
  ASSERT_EQ(all.json["logprobs"].size(), 30u) << all.reply.body;
  const auto text_of = [&](size_t i) { return all.json["logprobs"][i]["token"].get<std::string>(); };
  std::string before;
  size_t n = 0;
  for (; n + 1 < 30; before += text_of(n++))
    if (n > 3 && (before + text_of(n)).find(text_of(n) + text_of(n + 1)) == std::string::npos) break;
  ASSERT_LT(n + 1, 30u);
  request["options"]["stop"] = {text_of(n) + text_of(n + 1)};
  const Answer stopped = whole("/api/generate", request);
  ASSERT_EQ(stopped.json["context"].size(), n_prompt + n) << stopped.reply.body;
  for (size_t i = 0; i < n_prompt + n; ++i) EXPECT_EQ(stopped.json["context"][i], all.json["context"][i]) << i;
}

TEST_F(OllamaApi, LinesOfARawStreamHaveTexts) {
  start();
  ordered_json request = {
      {"prompt", "Once"}, {"raw", true}, {"options", {{"num_predict", 5}, {"seed", 1}, {"ignore_eos", true}}}};
  const auto streamed = lines("/api/generate", request);
  ASSERT_EQ(streamed.size(), 6u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(streamed[i]["done"], false);
    EXPECT_NE(streamed[i]["response"], "");
  }
  EXPECT_EQ(streamed.back()["done"], true);
  request["options"]["logit_bias"] = {{"1", 1000}};  // <s>, which has no text
  EXPECT_EQ(lines("/api/generate", request).size(), 1u);
}

TEST_F(OllamaApi, AnEmptyRequestLoadsTheModel) {
  start();
  const auto generate = lines("/api/generate", {{"model", "story"}});
  ASSERT_EQ(generate.size(), 1u);
  EXPECT_EQ(generate[0]["done_reason"], "load");
  const Answer chat = whole("/api/chat", {{"model", "story"}, {"messages", ordered_json::array()}, {"keep_alive", 0}});
  EXPECT_EQ(chat.json["done_reason"], "unload");
  EXPECT_EQ(chat.json["message"]["role"], "assistant");
}

TEST_F(OllamaApi, KeepAliveShowsInTheTimeOfExpiry) {
  start();
  const auto year_after = [&](const ordered_json& keep_alive) {
    EXPECT_EQ(whole("/api/generate", {{"keep_alive", keep_alive}}).status, 200) << keep_alive;
    return get("/api/ps").json["models"][0]["expires_at"].get<std::string>().substr(0, 4);
  };
  const std::string never = get("/api/ps").json["models"][0]["expires_at"];
  EXPECT_GT(never, "2200");
  const std::string now = whole("/api/generate", {}).json["created_at"].get<std::string>().substr(0, 4);
  EXPECT_GT(year_after("90000h"), now);
  EXPECT_LT(year_after("90000h"), "2100");
  EXPECT_LE(year_after(0), std::to_string(std::stoi(now) + 1));
  EXPECT_GT(year_after(-1), "2200");
  EXPECT_GT(year_after("-1m"), "2200");
  EXPECT_LT(year_after("1h30m5.5s10ms"), "2100");
  for (const ordered_json& bad : {ordered_json("5x"), ordered_json(""), ordered_json("5m3"), ordered_json(true),
                                  ordered_json("h"), ordered_json("1e3s")})
    expect_error(whole("/api/generate", {{"keep_alive", bad}}), 400, "keep_alive");
}

TEST_F(OllamaApi, AChatHasAMessage) {
  start();
  const ordered_json request = {{"messages", kHello}, {"options", {{"num_predict", 8}, {"seed", 2}}}};
  const Answer answer = whole("/api/chat", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_EQ(answer.json["model"], "story:latest");
  EXPECT_EQ(answer.json["message"]["role"], "assistant");
  EXPECT_FALSE(answer.json.contains("context"));
  std::string text;
  const auto streamed = lines("/api/chat", request);
  for (const auto& line : streamed) text += line["message"]["content"];
  EXPECT_EQ(text, answer.json["message"]["content"]);
  EXPECT_EQ(streamed.back()["done_reason"], "length");
  EXPECT_EQ(streamed.back()["prompt_eval_count"], answer.json["prompt_eval_count"]);
}

TEST_F(OllamaApi, GenerateAsksAsAChatDoes) {
  start();
  const ordered_json options = {{"num_predict", 8}, {"seed", 2}};
  ordered_json messages = kHello;
  messages.insert(messages.begin(), ordered_json{{"role", "system"}, {"content", "Be kind"}});
  EXPECT_EQ(whole("/api/generate", {{"prompt", "Hello"}, {"system", "Be kind"}, {"options", options}}).json["response"],
            whole("/api/chat", {{"messages", messages}, {"options", options}}).json["message"]["content"]);
}

TEST_F(OllamaApi, LogprobsComeWithTheirTexts) {
  start();
  const ordered_json request = {
      {"messages", kHello}, {"logprobs", true}, {"top_logprobs", 2}, {"options", {{"num_predict", 7}, {"seed", 2}}}};
  const Answer answer = whole("/api/chat", request);
  ASSERT_EQ(answer.json["logprobs"].size(), 7u) << answer.reply.body;
  EXPECT_EQ(answer.json["logprobs"][0]["top_logprobs"].size(), 2u);
  size_t n_streamed = 0;
  for (const auto& line : lines("/api/chat", request))
    if (line.contains("logprobs")) n_streamed += line["logprobs"].size();
  EXPECT_EQ(n_streamed, 7u);
  expect_error(whole("/api/chat", {{"messages", kHello}, {"logprobs", true}, {"top_logprobs", 21}}), 400,
               "top_logprobs");
}

TEST_F(OllamaApi, AFormatHolds) {
  start();
  const ordered_json schema = {{"type", "object"},
                               {"properties", {{"ok", {{"type", "boolean"}}}}},
                               {"required", {"ok"}},
                               {"additionalProperties", false}};
  const ordered_json options = {{"num_predict", 60}, {"seed", 5}};
  const auto is_right = [](const ordered_json& text) {
    const auto value = ordered_json::parse(text.get<std::string>(), nullptr, false);
    return value.is_object() && value["ok"].is_boolean();
  };
  const Answer chat = whole("/api/chat", {{"messages", kHello}, {"format", schema}, {"options", options}});
  EXPECT_TRUE(is_right(chat.json["message"]["content"])) << chat.reply.body;
  EXPECT_EQ(chat.json["done_reason"], "stop");
  const Answer raw = whole("/api/generate", {{"prompt", "a"}, {"raw", true}, {"format", schema}, {"options", options}});
  EXPECT_TRUE(is_right(raw.json["response"])) << raw.reply.body;
  const Answer any = whole("/api/generate", {{"prompt", "a"}, {"format", "json"}, {"options", options}});
  EXPECT_TRUE(any.json["response"].get<std::string>().starts_with("{")) << any.reply.body;
  EXPECT_EQ(whole("/api/generate", {{"prompt", "a"}, {"format", ""}, {"options", options}}).status, 200);
  const ordered_json wrong = {{"type", "string"}, {"pattern", "("}};
  expect_error(whole("/api/chat", {{"messages", kHello}, {"format", wrong}}), 400, "'format'");
  expect_error(whole("/api/generate", {{"prompt", "a"}, {"raw", true}, {"format", wrong}}), 400, "'format'");
  expect_error(whole("/api/generate", {{"prompt", "a"}, {"format", "xml"}}), 400, "format");
  const ordered_json both = {{"grammar", "root ::= \"a\""}};
  expect_error(whole("/api/generate", {{"prompt", "a"}, {"format", "json"}, {"options", both}}), 400, "a grammar");
}

TEST_F(OllamaApi, AToolCallIsWholeInOneLine) {
  start_with_template(kOllamaTools);
  const ordered_json tool = {{"type", "function"},
                             {"function",
                              {{"name", "add"},
                               {"parameters",
                                {{"type", "object"},
                                 {"properties", {{"up", {{"type", "boolean"}}}}},
                                 {"required", {"up"}},
                                 {"additionalProperties", false}}}}}};
  // The reply is a short text in quotes or calls. The bias of the first letter of their mark decides for calls.
  ordered_json request = {{"messages", kHello}, {"tools", {tool}}, {"format", {{"enum", {"a"}}}}};
  const auto calls_in = [](const ordered_json& message) {
    return message.contains("tool_calls") ? message["tool_calls"] : ordered_json::array();
  };
  request["options"] = {{"num_predict", 300}, {"seed", 1}};
  request["options"]["logit_bias"] = ordered_json::array({ordered_json::array({"<", 50})});
  const Answer answer = whole("/api/chat", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const auto calls = calls_in(answer.json["message"]);
  ASSERT_FALSE(calls.empty()) << answer.reply.body;
  for (const auto& call : calls) {
    EXPECT_EQ(call["function"]["name"], "add");
    EXPECT_TRUE(call["function"]["arguments"]["up"].is_boolean()) << answer.reply.body;
  }
  std::vector<ordered_json> streamed;
  for (const auto& line : lines("/api/chat", request)) {
    const auto here = calls_in(line["message"]);
    EXPECT_LE(here.size(), 1u);
    if (!here.empty()) streamed.push_back(here[0]["function"]);
  }
  ASSERT_EQ(streamed.size(), calls.size());
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(streamed[i], calls[i]["function"]);
  request["options"]["grammar"] = "root ::= \"a\"";
  request.erase("format");
  expect_error(whole("/api/chat", request), 400, "options.grammar");
}

TEST_F(OllamaApi, CallsAndResultsOfToolsAreInThePrompt) {
  start_with_template(kOllamaTools);
  const auto n_prompt = [&](const ordered_json& messages) {
    const Answer answer = whole("/api/chat", {{"messages", messages}, {"options", {{"num_predict", 1}}}});
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json["prompt_eval_count"].get<int64_t>();
  };
  ordered_json messages = kHello;
  messages.push_back({{"role", "assistant"},
                      {"tool_calls", {{{"function", {{"name", "add"}, {"arguments", {{"a", 1}, {"b", 2}}}}}}}}});
  const int64_t n_call = n_prompt(messages);
  messages.push_back({{"role", "tool"}, {"tool_name", "add"}, {"content", "three"}});
  EXPECT_GT(n_call, n_prompt(kHello));
  EXPECT_GT(n_prompt(messages), n_call);
}

TEST_F(OllamaApi, ThinkingIsApartFromTheText) {
  start_with_template(kOllamaThinks);
  ordered_json request = {{"messages", kHello}, {"options", {{"num_predict", 8}, {"seed", 2}}}};
  const Answer thinks = whole("/api/chat", request);
  ASSERT_TRUE(thinks.json["message"].contains("thinking")) << thinks.reply.body;
  EXPECT_EQ(thinks.json["message"]["content"], "");
  std::string streamed;
  for (const auto& line : lines("/api/chat", request)) streamed += line["message"].value("thinking", "");
  EXPECT_EQ(streamed, thinks.json["message"]["thinking"]);
  const Answer generated =
      whole("/api/generate", {{"prompt", "Hello"}, {"think", true}, {"options", request["options"]}});
  EXPECT_EQ(generated.json["thinking"], thinks.json["message"]["thinking"]) << generated.reply.body;
  request["think"] = false;
  const Answer answers = whole("/api/chat", request);
  EXPECT_FALSE(answers.json["message"].contains("thinking")) << answers.reply.body;
  EXPECT_NE(answers.json["message"]["content"], "");
}

TEST_F(OllamaApi, AModelThatCannotThinkSaysSo) {
  start();
  expect_error(whole("/api/chat", {{"model", "story"}, {"messages", kHello}, {"think", true}}), 400,
               "\"story\" does not support thinking");
  expect_error(whole("/api/chat", {{"messages", kHello}, {"think", "high"}}), 400, "does not support thinking");
  expect_error(whole("/api/chat", {{"messages", kHello}, {"think", "loud"}}), 400, "think");
  EXPECT_EQ(whole("/api/chat", {{"messages", kHello}, {"think", false}, {"options", {{"num_predict", 1}}}}).status,
            200);
}

TEST_F(OllamaApi, NumCtxBoundsPromptAndAnswer) {
  start();
  const Answer bounded =
      whole("/api/generate", {{"prompt", "a"}, {"raw", true}, {"options", {{"num_ctx", 12}, {"ignore_eos", true}}}});
  ASSERT_EQ(bounded.status, 200) << bounded.reply.body;
  EXPECT_EQ(bounded.json["prompt_eval_count"].get<int64_t>() + bounded.json["eval_count"].get<int64_t>(), 12);
  EXPECT_EQ(bounded.json["done_reason"], "length");
  expect_error(whole("/api/chat", {{"messages", kHello}, {"options", {{"num_ctx", 3}}}}), 400,
               "exceeds the available context size (3 tokens)");
}

TEST_F(OllamaApi, BadFieldsAreRefusedWithTheirPath) {
  start();
  const std::pair<const char*, const char*> bad[] = {
      {R"({"prompt":5})", "prompt"},
      {R"({"prompt":"a","suffix":"b","model":"story"})", "\"story\" does not support insert"},
      {R"({"prompt":"a","template":"{{ .Prompt }}"})", "template"},
      {R"({"prompt":"a","images":["aaaa"]})", "images"},
      {R"({"prompt":"a","context":[1,99999]})", "context[1]"},
      {R"({"prompt":"a","context":5})", "context"},
      {R"({"prompt":"a","options":5})", "options"},
      {R"({"prompt":"a","options":{"top_p":1.5}})", "Field 'options.top_p': value 1.5, want 0 to 1"},
      {R"({"prompt":"a","options":{"num_predict":"x"}})", "options.num_predict"},
      {R"({"prompt":"a","options":{"num_ctx":0}})", "options.num_ctx"},
      {R"({"prompt":"a","options":{"stop":[1]}})", "options.stop[0]"},
      {R"({"prompt":"a","stream":1})", "stream"},
      {"{", "byte"},
  };
  for (const auto& [body, part] : bad) expect_error(post("/api/generate", body), 400, part);
  expect_error(post("/api/chat", R"({"messages":[{"role":"robot","content":"a"}]})"), 400, "messages[0].role");
  expect_error(post("/api/chat", R"({"messages":[{"role":"user","content":"a","images":["aaaa"]}]})"), 400,
               "messages[0].images");
  expect_error(post("/api/chat", R"({"messages":5})"), 400, "messages");
}

TEST_F(OllamaApi, OptionsOfALoaderAreIgnoredAndUnknownOnesAreNamed) {
  start();
  const Answer answer = whole(
      "/api/generate",
      {{"prompt", "a"},
       {"no_such", 1},
       {"options",
        {{"num_predict", 1}, {"num_gpu", 99}, {"num_thread", 4}, {"use_mmap", true}, {"n", 3}, {"no_option", 2}}}});
  EXPECT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_EQ(answer.reply.field("x-ignored-fields"), "no_such, no_option");
}

TEST_F(OllamaApi, AStreamThatFailsEndsWithAnErrorLine) {
  start({.n_slots = 1, .n_ctx = 8192});
  HttpClient client = connect();
  client.post("/api/generate", R"({"prompt":"a","raw":true,"options":{"ignore_eos":true}})");
  const HttpReply head = client.read_head();
  const auto first = client.read_piece(head);
  ASSERT_TRUE(first.has_value());
  server_->end_requests();
  std::string rest = *first;
  while (const auto piece = client.read_piece(head)) rest += *piece;
  EXPECT_NE(rest.find("\n{\"error\":\""), std::string::npos) << rest.substr(0, 500);
  EXPECT_TRUE(rest.ends_with("\"}\n"));
}

TEST_F(OllamaApi, AClientThatLeavesFreesTheSlot) {
  start({.n_slots = 1, .n_ctx = 8192});
  HttpClient client = connect();
  client.post("/api/chat", R"({"messages":[{"role":"user","content":"a"}],"options":{"ignore_eos":true}})");
  const HttpReply head = client.read_head();
  ASSERT_TRUE(client.read_piece(head).has_value());
  client.close();
  wait_until_idle();
}

TEST_F(OllamaApi, ModelsAreListed) {
  start({.n_ctx = 256});
  const auto tags = get("/api/tags").json["models"];
  ASSERT_EQ(tags.size(), 1u);
  EXPECT_EQ(tags[0]["name"], "story:latest");
  EXPECT_EQ(tags[0]["model"], "story:latest");
  EXPECT_EQ(tags[0]["details"]["format"], "gguf");
  EXPECT_EQ(tags[0]["details"]["family"], "llama");
  EXPECT_GT(tags[0]["size"].get<int64_t>(), 0);
  const std::string digest = tags[0]["digest"];
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(digest.find_first_not_of("0123456789abcdef"), std::string::npos);
  const auto running = get("/api/ps").json["models"];
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0]["digest"], digest);
  EXPECT_EQ(running[0]["context_length"], 256);
  EXPECT_TRUE(running[0].contains("size_vram"));
}

TEST_F(OllamaApi, DigestsTellModelsApart) {
  start();
  const auto story = get("/api/tags").json["models"][0]["digest"];
  EditableModel model(story_model());
  model.builder.set("general.name", std::string_view("another"));
  start({.model = model.write("ollama_another.gguf")});
  EXPECT_NE(get("/api/tags").json["models"][0]["digest"], story);
}

TEST_F(OllamaApi, ShowTellsAboutAModel) {
  start();
  const Answer shown = post("/api/show", R"({"model":"story"})");
  ASSERT_EQ(shown.status, 200) << shown.reply.body;
  EXPECT_EQ(shown.json["model_info"]["general.architecture"], "llama");
  EXPECT_GT(shown.json["model_info"]["general.parameter_count"].get<int64_t>(), 0);
  EXPECT_TRUE(shown.json["model_info"]["tokenizer.ggml.tokens"].is_null());
  EXPECT_EQ(shown.json["capabilities"][0], "completion");
  for (const char* name : {"modelfile", "parameters", "template", "details", "modified_at"})
    EXPECT_TRUE(shown.json.contains(name)) << name;
  const Answer verbose = post("/api/show", R"({"name":"story:latest","verbose":true})");
  EXPECT_GT(verbose.json["model_info"]["tokenizer.ggml.tokens"].size(), 64u);
  expect_error(post("/api/show", R"({"model":"nothing"})"), 404, "model 'nothing' not found");
  expect_error(post("/api/show", R"({})"), 400, "model");
}

TEST_F(OllamaApi, CapabilitiesFollowTemplateAndVocabulary) {
  const auto capabilities = [&] {
    const auto list = post("/api/show", R"({"model":"story"})").json["capabilities"];
    return std::set<std::string>(list.begin(), list.end());
  };
  start_with_template(kOllamaTools);
  EXPECT_TRUE(capabilities().contains("tools"));
  EXPECT_FALSE(capabilities().contains("thinking"));
  start_with_template(kOllamaThinks);
  EXPECT_TRUE(capabilities().contains("thinking"));
  EXPECT_FALSE(capabilities().contains("insert"));
}

TEST_F(OllamaApi, NothingIsWrittenOrFetched) {
  start();
  expect_error(post("/api/copy", R"({"source":"story","destination":"b"})"), 403, "switched off");
  expect_error(post("/api/create", R"({"model":"b","from":"story"})"), 403, "switched off");
  expect_error(post("/api/create", R"({"from":"story"})"), 400, "model");
  expect_error(post("/api/blobs/sha256:00", "abc"), 403, "switched off");
  expect_error(post("/api/push", R"({"model":"story"})"), 501, "no models");
  expect_error(post("/api/pull", R"({"model":"nothing"})"), 501, "'nothing'");
  HttpClient client = connect();
  const std::string body = R"({"model":"story"})";
  client.send("DELETE /api/delete HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  expect_error(read(client), 403, "switched off");
  HttpClient head = connect();
  head.send("HEAD /api/blobs/sha256:00 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(head.read_head().status, 403);
}

TEST_F(OllamaApi, PullingTheModelThatIsHereSucceeds) {
  start();
  const auto streamed = lines("/api/pull", {{"model", "story"}});
  ASSERT_GE(streamed.size(), 2u);
  EXPECT_EQ(streamed.back()["status"], "success");
  EXPECT_EQ(whole("/api/pull", {{"model", "story"}}).reply.body, R"({"status":"success"})");
}

TEST_F(OllamaApi, EmbeddingsAreNotOfferedYet) {
  start();
  expect_error(post("/api/embed", R"({"model":"story","input":["a","b"]})"), 501, "embeddings");
  expect_error(post("/api/embeddings", R"({"model":"story","prompt":"a"})"), 501, "embeddings");
  expect_error(post("/api/embed", R"({"input":5})"), 400, "input");
  expect_error(post("/api/embed", R"({})"), 400, "input");
  expect_error(post("/api/embeddings", R"({"input":"a"})"), 400, "prompt");
}

TEST_F(OllamaApi, ItsProgramsFindTheServer) {
  server::ServerOptions options;
  options.http.port = 0;
  ASSERT_OK_AND_ASSIGN(server_, server::Server::start(options));  // also while the model is being loaded
  EXPECT_EQ(get("/api/version").json["version"], "0.20.0");
  EXPECT_EQ(get("/", "User-Agent: ollama/0.20.0 (amd64 linux)\r\n").reply.body, "Ollama is running");
  HttpClient head = connect();
  head.send("HEAD / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: ollama-python/0.6\r\n\r\n");
  EXPECT_EQ(head.read_head().status, 200);
  EXPECT_NE(get("/", "User-Agent: Mozilla/5.0\r\n").reply.body, "Ollama is running");
  expect_error(post("/api/generate", R"({"prompt":"a"})"), 503, "Loading model");
}

}  // namespace
}  // namespace tessera
