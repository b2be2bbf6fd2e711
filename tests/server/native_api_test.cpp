// The routes of llama-server over HTTP.
#include <gtest/gtest.h>

#include "tests/server/api_support.h"
#include "tests/server/http_server_fixture.h"

namespace tessera {
namespace {

using namespace testing;

class NativeApi : public ApiTest {};

// Tokens that a grammar forces come without logits, so they are not forced if their probabilities are wanted.
TEST_F(NativeApi, TokensOfAGrammarHaveProbabilities) {
  start();
  const ordered_json request = {
      {"prompt", "Once"}, {"n_predict", 20}, {"grammar", R"(root ::= "a little dog ran home")"}, {"n_probs", 1}};
  const Answer answer = post_json("/completion", request);
  EXPECT_EQ(answer.json["content"], "a little dog ran home");
  EXPECT_GE(answer.json["completion_probabilities"].size(), 5u);
  EXPECT_LE(answer.json["tokens_predicted"].get<size_t>() - answer.json["completion_probabilities"].size(), 1u);
}

TEST_F(NativeApi, HealthAnswersBeforeTheModelIsThere) {
  server::ServerOptions options;
  options.http.port = 0;
  ASSERT_OK_AND_ASSIGN(server_, server::Server::start(options));
  const Answer loading = get("/health");
  EXPECT_EQ(loading.status, 503);
  EXPECT_EQ(loading.json,
            ordered_json::parse(R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})"));
  EXPECT_EQ(post("/completion", R"({"prompt":"a"})").status, 503);
  start();
  EXPECT_EQ(get("/health").reply.body, R"({"status":"ok"})");
  EXPECT_EQ(get("/v1/health").status, 200);
}

TEST_F(NativeApi, ACompletionHasTheFieldsOfThePeer) {
  start();
  const Answer answer = post("/completion", R"({"prompt":"Once upon a time","n_predict":6,"seed":3,"temperature":0})");
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  std::vector<std::string> keys;
  for (const auto& [key, value] : answer.json.items()) keys.push_back(key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"index", "content", "tokens", "id_slot", "stop", "model", "tokens_predicted",
                                      "tokens_evaluated", "generation_settings", "prompt", "has_new_line", "truncated",
                                      "stop_type", "stopping_word", "tokens_cached", "timings"}));
  EXPECT_EQ(answer.json["tokens_predicted"], 6);
  EXPECT_EQ(answer.json["stop_type"], "limit");
  EXPECT_EQ(answer.json["model"], "story.gguf");
  EXPECT_EQ(answer.json["generation_settings"]["seed"], 3);
  EXPECT_EQ(answer.json["timings"]["predicted_n"], 6);
  const int64_t n_prompt = answer.json["tokens_evaluated"];
  EXPECT_EQ(answer.json["timings"]["prompt_n"], n_prompt);
  EXPECT_EQ(answer.json["tokens_cached"], n_prompt + 5);
  EXPECT_NE(answer.reply.field("x-request-id"), "");
}

// The texts of the peer for its own test of the same model and seed.
TEST_F(NativeApi, SeededTextsAreThoseOfThePeer) {
  TESSERA_SHARED_OR_SKIP(path, "models/stories260K.gguf");
  start({.model = path});
  const Answer bare = post("/completion", R"({"prompt":"I believe the meaning of life is","n_predict":8,"seed":42})");
  EXPECT_EQ(bare.json["content"], " going to bed. I");
  const Answer text = post("/completion", R"({"prompt":"This is not a chat template, it is","n_predict":8,"seed":42})");
  EXPECT_EQ(text.json["content"], " blue and shin");
  const auto chat = [&](const std::string& system, const std::string& user) {
    ordered_json messages = ordered_json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", user}});
    const Answer answer =
        post_json("/v1/chat/completions", ordered_json{{"messages", messages}, {"max_tokens", 8}, {"seed", 42}});
    return answer.json["choices"][0]["message"]["content"].get<std::string>();
  };
  EXPECT_EQ(chat("Book", "Hey"), "But she couldn't");
  EXPECT_EQ(chat("Book", "What is the best book"), "Suddenly.");
  EXPECT_EQ(chat("Book", "What is\nthe best book"), "Whillicter");
}

TEST_F(NativeApi, AStreamAddsUpToTheWholeAnswer) {
  start();
  const ordered_json request = {{"prompt", "The little dog"}, {"n_predict", 12}, {"seed", 9}};
  const Answer whole = post_json("/completion", request);
  const auto events = stream("/completion", request);
  ASSERT_EQ(events.size(), 13u);
  std::string text;
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(events[i]["stop"], false);
    EXPECT_EQ(events[i]["tokens"].size(), 1u);
    EXPECT_EQ(events[i]["tokens_predicted"], i + 1);
    text += events[i]["content"];
  }
  EXPECT_EQ(text, whole.json["content"]);
  EXPECT_EQ(events.back()["stop"], true);
  EXPECT_EQ(events.back()["content"], "");
  EXPECT_EQ(events.back()["tokens_predicted"], 12);
}

TEST_F(NativeApi, SeveralPromptsAndChoicesAnswerInOrder) {
  start();
  const Answer answer = post("/completion", R"({"prompt":["A cat",[1,2,3]],"n":2,"n_predict":4,"seed":5})");
  ASSERT_TRUE(answer.json.is_array());
  ASSERT_EQ(answer.json.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(answer.json[i]["index"], i);
  EXPECT_NE(answer.json[0]["prompt"], answer.json[2]["prompt"]);
  const Answer alone = post("/completion", R"({"prompt":"A cat","n_predict":4,"seed":6})");
  EXPECT_EQ(answer.json[1]["content"], alone.json["content"]);  // choice i has the seed + i
}

TEST_F(NativeApi, ARequestHasAMostNumberOfPromptsAndAnswers) {
  start();
  const auto answer = [&](size_t n_prompts, int n) {
    return post_json("/completion", {{"prompt", std::vector<std::string>(n_prompts, "a")}, {"n", n}, {"n_predict", 1}});
  };
  const Answer most = answer(2048, 2);
  EXPECT_EQ(most.status, 200);
  EXPECT_EQ(most.json.size(), 4096u);
  expect_refused(answer(2049, 1), 400, "2048");
  expect_refused(answer(1366, 3), 400, "1366 prompts with 3 choices each");
}

TEST_F(NativeApi, StopStringsAreLeftOut) {
  start();
  const ordered_json request = {{"prompt", "Once upon a time"}, {"n_predict", 40}, {"temperature", 0}};
  const std::string whole = post_json("/completion", request).json["content"];
  ordered_json stopped = request;
  stopped["stop"] = {whole.substr(9, 4)};
  stopped["n_probs"] = 1;
  const Answer answer = post_json("/completion", stopped);
  EXPECT_EQ(answer.json["content"], whole.substr(0, whole.find(whole.substr(9, 4))));
  EXPECT_EQ(answer.json["stop_type"], "word");
  EXPECT_EQ(answer.json["stopping_word"], whole.substr(9, 4));
  std::string texts;  // tokens of the stop string are no part of the probabilities
  for (const auto& one : answer.json["completion_probabilities"]) texts += one["token"];
  EXPECT_LE(texts.size(), whole.find(whole.substr(9, 4)) + 4);
  std::string streamed;
  for (const auto& event : stream("/completion", stopped))
    if (!event["stop"]) streamed += event["content"];
  EXPECT_EQ(streamed, answer.json["content"]);
}

TEST_F(NativeApi, ProbabilitiesOfAStopStringAreLeftOut) {
  start();
  ordered_json request = {{"prompt", "Once upon a time"}, {"n_predict", 30}, {"temperature", 0}, {"n_probs", 1}};
  std::vector<std::string> texts;
  const ordered_json whole = post_json("/completion", request).json;
  for (const auto& one : whole["completion_probabilities"]) texts.push_back(one["token"]);
  ASSERT_EQ(texts.size(), 30u) << whole;
  // A stop string of whole tokens that comes for the first time.
  std::string before;
  size_t n = 0;
  for (; n + 1 < texts.size(); before += texts[n++])
    if (n > 3 && (before + texts[n]).find(texts[n] + texts[n + 1]) == std::string::npos) break;
  ASSERT_LT(n + 1, texts.size());
  request["stop"] = {texts[n] + texts[n + 1]};
  const Answer answer = post_json("/completion", request);
  EXPECT_EQ(answer.json["content"], before) << answer.reply.body;
  EXPECT_EQ(answer.json["completion_probabilities"].size(), n) << answer.reply.body;
  size_t n_streamed = 0;
  for (const auto& event : stream("/completion", request))
    if (!event["stop"] && event.contains("completion_probabilities"))
      n_streamed += event["completion_probabilities"].size();
  EXPECT_EQ(n_streamed, n);
}

// The first token of the vocabulary is one like others.
TEST_F(NativeApi, ATokenOfNumberZeroIsSent) {
  start();
  const ordered_json bias = ordered_json::array({ordered_json::array({0, 1000})});
  const auto events = stream("/completion", {{"prompt", "a"}, {"n_predict", 3}, {"logit_bias", bias}});
  ASSERT_EQ(events.size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(events[i]["tokens"], ordered_json::array({0}));
}

TEST_F(NativeApi, GrammarsAndSchemasHold) {
  start();
  const Answer grammar = post("/completion", R"({"prompt":"a","n_predict":20,"grammar":"root ::= \"yes\" | \"no\""})");
  EXPECT_TRUE(grammar.json["content"] == "yes" || grammar.json["content"] == "no") << grammar.reply.body;
  EXPECT_EQ(grammar.json["stop_type"], "eos");
  const Answer schema = post(
      "/completion",
      R"({"prompt":"a","n_predict":60,"json_schema":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}})");
  const auto value = ordered_json::parse(schema.json["content"].get<std::string>(), nullptr, false);
  EXPECT_TRUE(value.is_object() && value["a"].is_boolean()) << schema.reply.body;
  expect_refused(post("/completion", R"({"prompt":"a","grammar":"root ::= ("})"), 400, "grammar");
  expect_refused(post("/completion", R"({"prompt":"a","json_schema":{"type":"wrong"}})"), 400, "json_schema");
}

// Editors want the lines of a block, and an answer in time. The grammar writes the text.
TEST_F(NativeApi, AnAnswerEndsByTheIndentOfALine) {
  start();
  const auto content = [&](const std::string& text, int n_indent) {
    const Answer answer = post_json(
        "/completion", {{"prompt", "x"}, {"grammar", "root ::= " + ordered_json(text).dump()}, {"n_indent", n_indent}});
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    const std::string shown = answer.json["content"];
    EXPECT_TRUE(text.starts_with(shown)) << shown;
    EXPECT_EQ(answer.json["stop_type"], shown == text ? "eos" : "limit");
    return shown;
  };
  const std::string spaces = "a\n  b c\n  d\ne fffffffffffffffff", tabs = "a\n\t\tb\ne fffffffffffffffff";
  EXPECT_EQ(content(spaces, 0), spaces);
  for (const auto& [text, last] : {std::pair(spaces, "\n  d\ne"), {tabs, "\t\tb\ne"}}) {
    const std::string shown = content(text, 2);
    EXPECT_NE(shown.find(last), std::string::npos) << shown;
    EXPECT_LT(shown.size(), text.size());
  }
  EXPECT_EQ(content(spaces, 3).find('d'), std::string::npos);
  const std::string empty = "a\n\n  b\n   c ddddddddddd";
  EXPECT_EQ(content(empty, 2), empty);
}

TEST_F(NativeApi, AnAnswerEndsByTimeAtALine) {
  start();
  const auto answer = [&](ordered_json fields) {
    fields["prompt"] = "x";
    fields["grammar"] = "root ::= [a-z]{40} \"\\n\" [a-z]{40}";
    return post_json("/completion", fields).json;
  };
  const ordered_json late = answer({{"t_max_predict_ms", 0}});
  EXPECT_EQ(late["content"].get<std::string>().find('\n'), 40u) << late;
  EXPECT_LT(late["content"].get<std::string>().size(), 81u) << late;
  EXPECT_EQ(late["timings"]["timeout"], true) << late;
  for (const int ms : {-1, 1'000'000}) {
    const ordered_json whole = answer({{"t_max_predict_ms", ms}});
    EXPECT_EQ(whole["content"].get<std::string>().size(), 81u) << whole;
    EXPECT_FALSE(whole["timings"].contains("timeout")) << whole;
  }
}

TEST_F(NativeApi, ProbabilitiesComeWithTheirTokens) {
  start();
  const ordered_json request = {{"prompt", "A"}, {"n_predict", 5}, {"n_probs", 3}, {"temperature", 0}};
  const Answer answer = post_json("/completion", request);
  ASSERT_EQ(answer.json["completion_probabilities"].size(), 5u);
  const auto& first = answer.json["completion_probabilities"][0];
  EXPECT_EQ(first["top_logprobs"].size(), 3u);
  EXPECT_EQ(first["top_logprobs"][0]["id"], first["id"]);
  EXPECT_LT(first["logprob"], 0.0);
  size_t n_streamed = 0;
  for (const auto& event : stream("/completion", request))
    if (!event["stop"] && event.contains("completion_probabilities"))
      n_streamed += event["completion_probabilities"].size();
  EXPECT_EQ(n_streamed, 5u);
  ordered_json after = request;
  after["post_sampling_probs"] = true;
  EXPECT_EQ(post_json("/completion", after).json["completion_probabilities"][0]["prob"], 1.0);
  EXPECT_EQ(post_json("/completion", after).json["completion_probabilities"][0]["top_probs"].size(), 1u);
  after["temperature"] = 1;
  EXPECT_EQ(post_json("/completion", after).json["completion_probabilities"][0]["top_probs"].size(), 3u);
}

TEST_F(NativeApi, RatesAreThoseOfTheTimes) {
  start();
  const ordered_json timings =
      post("/completion", R"({"prompt":"One day","n_predict":9,"ignore_eos":true})").json["timings"];
  const double prompt_ms = timings["prompt_ms"], n_prompt = timings["prompt_n"];
  EXPECT_DOUBLE_EQ(timings["prompt_per_token_ms"].get<double>() * n_prompt, prompt_ms) << timings;
  EXPECT_DOUBLE_EQ(timings["prompt_per_second"].get<double>() * prompt_ms, 1000 * n_prompt) << timings;
  const double predicted_ms = timings["predicted_ms"], n_steps = timings["predicted_n"].get<double>() - 1;
  EXPECT_DOUBLE_EQ(timings["predicted_per_token_ms"].get<double>() * n_steps, predicted_ms) << timings;
  EXPECT_DOUBLE_EQ(timings["predicted_per_second"].get<double>() * predicted_ms, 1000 * n_steps) << timings;
}

TEST_F(NativeApi, OnlyTheFieldsThatWereAskedFor) {
  start();
  const Answer answer = post("/completion", R"({"prompt":"a","n_predict":1,"seed":4,
      "response_fields":["content","generation_settings/seed","no/such"]})");
  EXPECT_EQ(answer.json.size(), 2u);
  EXPECT_EQ(answer.json["generation_settings/seed"], 4);
}

TEST_F(NativeApi, UnknownFieldsAreNamed) {
  start();
  const Answer answer = post("/completion", R"({"prompt":"a","n_predict":1,"no_such_field":4})");
  EXPECT_EQ(answer.reply.field("x-ignored-fields"), "no_such_field");
}

TEST_F(NativeApi, ThePromptsProgressIsShown) {
  start();
  std::string text;
  for (int i = 0; i < 100; ++i) text += "one two ";
  const auto events =
      stream("/completion", {{"prompt", text}, {"n_predict", 2}, {"return_progress", true}, {"n_ctx", 10}});
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events[0]["prompt_progress"]["processed"], 0);
  const auto& last = events[events.size() - 4]["prompt_progress"];
  EXPECT_EQ(last["processed"], last["total"]);
}

TEST_F(NativeApi, TokensGoBothWays) {
  start();
  const Answer tokens = post("/tokenize", R"({"content":"The cat sat","add_special":true})");
  ASSERT_EQ(tokens.status, 200);
  EXPECT_EQ(
      post_json("/detokenize", ordered_json{{"tokens", tokens.json["tokens"]}}).json["content"].get<std::string>(),
      "<s>The cat sat");
  const Answer pieces = post("/tokenize", R"({"content":"The cat","with_pieces":true})");
  EXPECT_TRUE(pieces.json["tokens"][0].contains("piece"));
  EXPECT_EQ(post("/tokenize", R"({"content":""})").reply.body, R"({"tokens":[]})");
  EXPECT_EQ(post("/tokenize", R"({})").reply.body, R"({"tokens":[]})");
  EXPECT_EQ(post("/tokenize", R"({"content":["The",5]})").json["tokens"].back(), 5);
  expect_refused(post("/detokenize", R"({"tokens":[-1]})"), 400, "tokens[0]");
  expect_refused(post("/detokenize", R"({"tokens":[1099511627776]})"), 400, "tokens[0]");
}

TEST_F(NativeApi, PropertiesSlotsAndModels) {
  start({.n_slots = 2, .n_ctx = 256, .options = {}, .served = {.aliases = {"a", "b"}}});
  const Answer props = get("/props");
  EXPECT_EQ(props.json["total_slots"], 2);
  EXPECT_EQ(props.json["default_generation_settings"]["n_ctx"], 256);
  EXPECT_EQ(props.json["model_alias"], "a");
  EXPECT_EQ(props.json["build_info"], "b1-test");
  EXPECT_EQ(get("/v1/models").json["data"][0]["id"], "a");
  post("/completion", R"({"prompt":"Once upon","n_predict":3})");
  const Answer slots = get("/slots");
  ASSERT_EQ(slots.json.size(), 2u);
  EXPECT_EQ(slots.json[0]["is_processing"], false);
  EXPECT_EQ(post("/slots/0?action=erase", "").json["id_slot"], 0);
  for (const char* path : {"/slots/2?action=erase", "/slots/abc?action=erase", "/slots/1099511627776?action=erase"})
    EXPECT_EQ(post(path, "").status, 400) << path;
  EXPECT_EQ(post("/slots/0?action=save", R"({"filename":"../x"})").status, 501);
  EXPECT_EQ(post("/props", "{}").status, 501);
  EXPECT_EQ(get("/metrics").status, 501);
}

TEST_F(NativeApi, PropertiesAreChangedOnlyWithTheFlag) {
  start();
  const Answer off = post("/props", "{}");
  EXPECT_EQ(off.status, 501);
  EXPECT_EQ(off.json["error"]["message"],
            "This server does not support changing global properties. Start it with `--props`");
  ApiSetup setup;
  setup.options.api.has_props = true;
  server_.reset();
  start(std::move(setup));
  EXPECT_EQ(post("/props", "{}").reply.body, R"({"success":true})");
  EXPECT_EQ(get("/props").json["endpoint_props"], true);
}

std::vector<std::string> keys_of(const ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST_F(NativeApi, SlotsShowTheirSequence) {
  start({.n_slots = 2, .n_ctx = 1 << 17});
  EXPECT_EQ(get("/slots").reply.body,
            R"([{"id":0,"n_ctx":131072,"speculative":false,"is_processing":false,"n_tokens":0,"state":"idle"},)"
            R"({"id":1,"n_ctx":131072,"speculative":false,"is_processing":false,"n_tokens":0,"state":"idle"}])");
  HttpClient client = connect();
  const ordered_json request{{"prompt", "Once upon a time"},
                             {"seed", 7},
                             {"ignore_eos", true},
                             {"stream", true},
                             {"n_predict", 100000},
                             {"min_p", 0.125},
                             {"grammar", "root ::= [a-z \\n]*"}};
  ASSERT_TRUE(client.post("/completion", request.dump()));
  const auto is_decoding = [this] { return get("/slots").json[0]["state"] == "decoding"; };
  ASSERT_TRUE(wait_until(is_decoding));
  const ordered_json busy = get("/slots").json[0];
  EXPECT_EQ(keys_of(busy),
            (std::vector<std::string>{"id", "n_ctx", "speculative", "is_processing", "id_task", "n_prompt_tokens",
                                      "n_prompt_tokens_processed", "n_prompt_tokens_cache", "params", "next_token",
                                      "state", "client", "priority"}));
  EXPECT_EQ(busy["params"]["seed"], 7);
  EXPECT_EQ(busy["params"]["min_p"], 0.125);
  EXPECT_EQ(busy["params"]["stream"], true);
  EXPECT_EQ(busy["params"]["n_predict"], 100000);
  EXPECT_FALSE(busy["params"].contains("grammar"));
  EXPECT_EQ(keys_of(busy["params"]), keys_of(get("/props").json["default_generation_settings"]["params"]));
  const ordered_json& next = busy["next_token"][0];
  EXPECT_EQ(keys_of(next), (std::vector<std::string>{"has_next_token", "has_new_line", "n_remain", "n_decoded"}));
  EXPECT_EQ(next["has_next_token"], true);
  EXPECT_GT(next["n_decoded"], 0);
  EXPECT_EQ(next["n_remain"].get<int64_t>() + next["n_decoded"].get<int64_t>(), 100000);
  client.close();
  wait_until_idle();
  const ordered_json idle = get("/slots").json[0];
  EXPECT_EQ(idle["is_processing"], false);
  EXPECT_EQ(idle["id_task"], busy["id_task"]);
  EXPECT_EQ(idle["params"], busy["params"]);
  EXPECT_EQ(idle["next_token"][0]["has_next_token"], false);
  EXPECT_EQ(idle["next_token"][0]["n_remain"], -1);
  EXPECT_EQ(idle["next_token"][0]["n_decoded"], 0);
  EXPECT_EQ(get("/slots").json[1].contains("params"), false);
}

TEST_F(NativeApi, MetricsCountTokensAndRequests) {
  ApiSetup setup;
  setup.options.api.has_metrics = true;
  start(std::move(setup));
  EXPECT_EQ(get("/metrics").reply.body.find("nan"), std::string::npos);
  post("/completion", R"({"prompt":"Once upon","n_predict":7})");
  const Answer answer = get("/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.reply.body.find("llamacpp:tokens_predicted_total 7\n"), std::string::npos) << answer.reply.body;
  EXPECT_NE(answer.reply.body.find("tessera_requests_total{route=\"/completion\",status=\"200\"} 1\n"),
            std::string::npos);
  EXPECT_NE(answer.reply.body.find("tessera_finished_total{model=\"story.gguf\",reason=\"length\"} 1\n"),
            std::string::npos);
}

TEST_F(NativeApi, BadRequestsAreRefusedAndTheServerLives) {
  start();
  const std::pair<const char*, const char*> bad[] = {
      {"", "empty"},
      {"{", "byte"},
      {"null", ""},
      {"[]", ""},
      {"{}", "prompt"},
      {R"({"prompt":5})", "prompt"},
      {R"({"prompt":""})", ""},
      {R"({"prompt":[99999]})", "prompt[0]"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":{"prompt_string":"a","multimodal_data":["x"]}})", "multimodal_data"},
      {R"({"prompt":"a","n_probs":2147483647})", "n_probs"},
      {R"({"prompt":"a","n_probs":-5})", "n_probs"},
      {R"({"prompt":"a","id_slot":999})", "id_slot"},
      {R"({"prompt":"a","id_slot":-7})", "id_slot"},
      {R"({"prompt":"a","mirostat":99})", "mirostat"},
      {R"({"prompt":"a","samplers":["nothing"]})", "samplers"},
      {R"({"prompt":"a","logit_bias":[[99999,1]]})", "logit_bias"},
      {R"({"prompt":"a","lora":[{"id":99,"scale":1}]})", "lora"},
      {R"({"prompt":"a","n":1000000000})", "n"},
      {R"({"prompt":"a","n_discard":-1})", "n_discard"},
      {R"({"prompt":"a","stop":[1,null]})", "stop"},
      {R"({"prompt":"a","temperature":1e999})", "byte"},
      {R"({"prompt":"a","seed":9223372036854775808})", "seed"},
      {R"({"prompt":"a","top_p":1.5})", "Field 'top_p': value 1.5, want 0 to 1"},
      {R"({"prompt":"a","chat_parser":"x"})", "chat_parser"},
      {"{\"prompt\":\"\xff\"}", "byte"},
      {R"({"prompt":"\ud800"})", "byte"},
  };
  for (const auto& [body, part] : bad) {
    const Answer answer = post("/completion", std::string(body));
    if (std::string_view(body) == R"({"prompt":""})") {
      EXPECT_EQ(answer.status, 200) << answer.reply.body;  // BOS alone
      continue;
    }
    EXPECT_EQ(answer.status, 400) << body << answer.reply.body;
    EXPECT_EQ(answer.json["error"]["type"], "invalid_request_error");
    EXPECT_NE(answer.json["error"]["message"].get<std::string>().find(part), std::string::npos)
        << body << answer.reply.body;
  }
  const Answer deep = post("/completion", std::string(200'000, '['));
  EXPECT_EQ(deep.status, 400);
  EXPECT_EQ(post("/completion", R"({"prompt":"a","n_predict":1})").status, 200);
}

TEST_F(NativeApi, APromptThatFillsTheContextIsRefusedWithBothNumbers) {
  start({.n_ctx = 64});
  ordered_json ids = ordered_json::array();
  for (int i = 0; i < 64; ++i) ids.push_back(5);
  const Answer answer = post_json("/completion", ordered_json{{"prompt", ids}});
  expect_refused(answer, 400, "request (64 tokens) exceeds the available context size (64 tokens), try increasing it");
  EXPECT_EQ(answer.json["error"]["type"], "exceed_context_size_error");
  EXPECT_EQ(answer.json["error"]["n_prompt_tokens"], 64);
  EXPECT_EQ(answer.json["error"]["n_ctx"], 64);
}

TEST_F(NativeApi, AClientThatLeavesFreesItsSlot) {
  start({.n_slots = 1, .n_ctx = 1 << 17});
  for (const bool streams : {true, false}) {
    HttpClient client = connect();
    client.post("/completion", ordered_json{{"prompt", "a"}, {"stream", streams}, {"ignore_eos", true}}.dump());
    if (streams) {
      const HttpReply head = client.read_head();
      EXPECT_TRUE(client.read_piece(head).has_value());
    }
    client.close();
    wait_until_idle();
  }
  EXPECT_EQ(post("/completion", R"({"prompt":"a","n_predict":1})").status, 200);
}

TEST_F(NativeApi, ADrainingServerEndsStreamsWithAnError) {
  ApiSetup setup{.n_slots = 1, .n_ctx = 1 << 17};  // no stream fills it
  setup.options.api.has_metrics = true;
  start(std::move(setup));
  HttpClient running = connect(), waiting = connect();
  running.post("/completion", R"({"prompt":"a","stream":true,"ignore_eos":true})");
  const HttpReply head = running.read_head();
  ASSERT_TRUE(running.read_piece(head).has_value());
  waiting.post("/completion", R"({"prompt":"b","n_predict":1})");
  while (get("/metrics").reply.body.find("llamacpp:requests_deferred 1\n") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server_->drain();
  EXPECT_EQ(waiting.read_answer().status, 503);
  server_->end_requests();
  std::string rest;
  while (const auto piece = running.read_piece(head)) rest += *piece;
  EXPECT_NE(rest.find(R"(data: {"error":{"code":503)"), std::string::npos) << rest.substr(0, 500);
  wait_until_idle();
}

TEST_F(NativeApi, KeysAreWanted) {
  ApiSetup setup;
  setup.options.http.api_keys = {"secret"};
  start(std::move(setup));
  expect_refused(post("/completion", R"({"prompt":"a","n_predict":1})", ""), 401, "Invalid API Key");
  EXPECT_EQ(post("/completion", R"({"prompt":"a","n_predict":1})", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(NativeApi, NoCommandsRunAndNoOtherHostIsReached) {
  start();
  for (const char* path : {"/tools", "/cors-proxy"}) {
    expect_refused(get(path), 403, "this feature is disabled");
    const Answer answer = post(path, "{}");
    EXPECT_EQ(answer.json["error"]["type"], "feature_disabled") << answer.reply.body;
  }
}

TEST_F(NativeApi, TheTokenizerTellsItsSpecialTokens) {
  start();
  const Answer answer = get("/tokenizer_info");
  EXPECT_EQ(answer.json["bos_token"], get("/props").json["bos_token"]);
  EXPECT_EQ(answer.json["eos_token"], get("/props").json["eos_token"]);
  EXPECT_TRUE(answer.json.contains("pad_token"));
  EXPECT_EQ(answer.json["chat_template"], get("/props").json["chat_template"]);
}

}  // namespace
}  // namespace tessera
