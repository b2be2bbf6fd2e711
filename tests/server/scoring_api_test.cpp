// Scored prompts and the best of several answers over HTTP: echo, prompt_logprobs and best_of of /v1/completions.
#include <gtest/gtest.h>

#include "tessera/eval/log_likelihood.h"
#include "tests/server/api_support.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr const char* kText = "Once upon a time, there was a little girl named Lily. She had a café ☕ and a dog.";

class ScoringApi : public ApiTest {
 protected:
  static void SetUpTestSuite() { ASSERT_OK_AND_ASSIGN(engine_, load_engine(story_model())); }
  static void TearDownTestSuite() { engine_.reset(); }

  static std::vector<int32_t> ids(const std::string& text = kText) { return text_ids(*engine_, text); }

  // The logarithms by which eval computes the perplexity of a text, of its second and later tokens.
  static std::vector<float> log_likelihoods(const std::vector<int32_t>& tokens) {
    auto session = Session::create(engine_, {.n_ctx = 1024, .n_outputs = std::ssize(tokens)}).value();
    EXPECT_OK(session->decode(all_logits(tokens)));
    std::vector<eval::TokenRow> rows;
    for (size_t i = 1; i < tokens.size(); ++i)
      rows.push_back({session->logits(static_cast<int64_t>(i) - 1), tokens[i]});
    std::vector<double> nll(rows.size());
    const auto threads = ThreadPool::create({.n_threads = 1, .poll = 0}).value();
    eval::negative_log_likelihoods(*threads, rows, nll);
    std::vector<float> logs;
    for (const double one : nll) logs.push_back(static_cast<float>(-one));
    return logs;
  }

  static std::vector<float> numbers(const ordered_json& list, size_t first) {
    std::vector<float> values;
    for (size_t i = first; i < list.size(); ++i) values.push_back(list[i].get<float>());
    return values;
  }

  // The request of lm-evaluation-harness for a loglikelihood.
  static ordered_json harness_request(const ordered_json& prompt, int n_tokens = 1) {
    return {{"model", "m"},     {"prompt", prompt}, {"max_tokens", n_tokens}, {"logprobs", 1}, {"echo", true},
            {"temperature", 0}, {"seed", 1234}};
  }

  static inline std::shared_ptr<Engine> engine_;
};

TEST_F(ScoringApi, EchoScoresThePromptAsEvalDoes) {
  start();
  const auto tokens = ids();
  ordered_json request = harness_request(tokens, 0);
  const Answer answer = post_json("/v1/completions", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const auto& choice = answer.json["choices"][0];
  EXPECT_EQ(choice["text"], kText);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), tokens.size());
  EXPECT_TRUE(choice["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].is_null());
  EXPECT_TRUE(choice["logprobs"]["content"][0]["logprob"].is_null());
  EXPECT_EQ(numbers(choice["logprobs"]["token_logprobs"], 1), log_likelihoods(tokens));
  EXPECT_EQ(answer.json["usage"]["prompt_tokens"], tokens.size());
  EXPECT_EQ(answer.json["usage"]["completion_tokens"], 0);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const auto& content = choice["logprobs"]["content"][i];
    EXPECT_EQ(content["id"], tokens[i]);
    EXPECT_EQ(content["logprob"], choice["logprobs"]["token_logprobs"][i]);
    ASSERT_EQ(choice["logprobs"]["top_logprobs"][i].size(), 1u);
    EXPECT_GE(choice["logprobs"]["top_logprobs"][i].begin()->get<float>(), content["logprob"].get<float>());
  }
  // Again, now that the cache holds the prompt, and as a text.
  request["prompt"] = kText;
  const Answer again = post_json("/v1/completions", request);
  EXPECT_EQ(again.json["choices"], answer.json["choices"]);
  EXPECT_EQ(again.json["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST_F(ScoringApi, PromptsOfTheHarnessAreScoredTogetherAsAlone) {
  start();
  const std::vector<std::string> texts = {"Tom and Jane", "Lily likes to play with her big red ball in the park.", "A",
                                          kText};
  ordered_json prompts = ordered_json::array();
  for (const std::string& text : texts) prompts.push_back(ids(text));
  const Answer all = post_json("/v1/completions", harness_request(prompts));
  ASSERT_EQ(all.status, 200) << all.reply.body;
  ASSERT_EQ(all.json["choices"].size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto& choice = all.json["choices"][i];
    EXPECT_EQ(choice["index"], i);
    EXPECT_TRUE(choice["text"].get<std::string>().starts_with(texts[i])) << choice["text"];
    const Answer alone = post_json("/v1/completions", harness_request(prompts[i]));
    EXPECT_EQ(choice["logprobs"], alone.json["choices"][0]["logprobs"]);
    auto scores = numbers(choice["logprobs"]["token_logprobs"], 1);
    ASSERT_EQ(scores.size(), prompts[i].size());  // without the first, with the generated one
    scores.pop_back();
    EXPECT_EQ(scores, log_likelihoods(ids(texts[i])));
  }
}

TEST_F(ScoringApi, OffsetsAreThoseOfTheTextInCodePoints) {
  start();
  ordered_json request = harness_request(kText, 12);
  for (const bool echoes : {true, false}) {
    request["echo"] = echoes;
    const Answer answer = post_json("/v1/completions", request);
    const auto& choice = answer.json["choices"][0];
    const std::string text = choice["text"];
    std::vector<size_t> begins;  // of code points
    for (size_t i = 0; i < text.size(); ++i)
      if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) begins.push_back(i);
    const auto& logprobs = choice["logprobs"];
    for (size_t i = 0; i < logprobs["tokens"].size(); ++i) {
      const std::string token = logprobs["tokens"][i];
      if (echoes && i <= 1) continue;                                 // BOS has no text, and the first word no space
      if (token.find("\xEF\xBF\xBD") != std::string::npos) continue;  // a part of a code point
      const size_t offset = logprobs["text_offset"][i];
      ASSERT_LT(offset, begins.size());
      EXPECT_EQ(text.substr(begins[offset], token.size()), token) << "token " << i;
    }
  }
}

TEST_F(ScoringApi, PromptLogprobsHaveTheFormOfVllm) {
  start();
  const auto tokens = ids();
  const Answer answer =
      post_json("/v1/completions",
                ordered_json{{"prompt", tokens}, {"max_tokens", 2}, {"temperature", 0}, {"prompt_logprobs", 2}});
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_TRUE(answer.json["choices"][0]["logprobs"].is_null());
  const auto& list = answer.json["choices"][0]["prompt_logprobs"];
  ASSERT_EQ(list.size(), tokens.size());
  EXPECT_TRUE(list[0].is_null());
  const auto logs = log_likelihoods(tokens);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const auto& own = list[i][std::to_string(tokens[i])];
    EXPECT_EQ(own["logprob"].get<float>(), logs[i - 1]);
    EXPECT_EQ(list[i].size(), own["rank"].get<int>() <= 2 ? 2u : 3u);
    for (const auto& one : list[i])
      if (one != own) {
        EXPECT_EQ(one["rank"] < own["rank"], one["logprob"] >= own["logprob"]);
      }
    EXPECT_TRUE(own["decoded_token"].is_string());
  }
  // Beside echo, each list has its own length.
  ordered_json both = harness_request(tokens, 0);
  both["prompt_logprobs"] = 0;
  both["logprobs"] = 4;
  const Answer second = post_json("/v1/completions", both);
  EXPECT_EQ(second.json["choices"][0]["prompt_logprobs"][3].size(), 1u);
  EXPECT_EQ(second.json["choices"][0]["logprobs"]["top_logprobs"][3].size(), 4u);
}

TEST_F(ScoringApi, AStreamSendsThePromptFirst) {
  start();
  for (const bool has_logprobs : {true, false}) {
    ordered_json request = harness_request(kText, 10);
    request["n"] = 2;
    if (!has_logprobs) request.erase("logprobs");
    const Answer whole = post_json("/v1/completions", request);
    ASSERT_EQ(whole.status, 200) << whole.reply.body;
    std::string texts[2];
    ordered_json logprobs[2] = {ordered_json::array(), ordered_json::array()};
    for (const auto& event : stream("/v1/completions", request)) {
      const auto& choice = event["choices"][0];
      const size_t index = choice["index"];
      if (texts[index].empty()) {
        EXPECT_EQ(choice["text"], kText);
      }
      texts[index] += choice["text"];
      if (!has_logprobs) continue;
      for (const auto& one : choice["logprobs"]["content"]) logprobs[index].push_back(one);
    }
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(texts[i], whole.json["choices"][i]["text"]);
      if (!has_logprobs) continue;
      EXPECT_EQ(logprobs[i], whole.json["choices"][i]["logprobs"]["content"]);
    }
  }
}

TEST_F(ScoringApi, ChoicesShareTheScoresOfTheirPrompt) {
  start();
  for (const bool caches : {true, false}) {
    ordered_json request = harness_request(kText, 4);
    request["n"] = 3;
    request["temperature"] = 1;
    request["cache_prompt"] = caches;
    const Answer answer = post_json("/v1/completions", request);
    ASSERT_EQ(answer.json["choices"].size(), 3u) << answer.reply.body;
    const auto expected = log_likelihoods(ids());
    for (const auto& choice : answer.json["choices"]) {
      auto scores = numbers(choice["logprobs"]["token_logprobs"], 1);
      scores.resize(expected.size());
      EXPECT_EQ(scores, expected);
    }
  }
}

// The last token of a prompt is computed for each choice, all others once.
TEST_F(ScoringApi, ChoicesComputeTheirPromptOnce) {
  ApiSetup setup;
  setup.options.api.has_metrics = true;
  start(std::move(setup));
  const auto n_computed = [&] {
    const std::string text = get("/metrics").reply.body, name = ",source=\"computed\"} ";
    return std::stoll(text.substr(text.find(name) + name.size()));
  };
  ordered_json prompt = ordered_json::array();
  for (int i = 0; i < 100; ++i) prompt.push_back(i * i % 200 + 3);
  int64_t n_before = 0;
  for (const bool is_scored : {false, true}) {
    SCOPED_TRACE(is_scored);
    prompt[0] = is_scored ? 4 : 5;
    ordered_json request = {{"prompt", prompt}, {"n", 3}, {"max_tokens", 1}, {"seed", 1}};
    if (is_scored) request["prompt_logprobs"] = 0;
    const Answer answer = post_json("/v1/completions", request);
    ASSERT_EQ(answer.json["choices"].size(), 3u) << answer.reply.body;
    wait_until_idle();
    EXPECT_EQ(n_computed() - n_before, 100 + 1 + 1);
    n_before = n_computed();
  }
}

TEST_F(ScoringApi, BestOfReturnsTheMostProbableAnswers) {
  start();
  ordered_json request = {{"prompt", "Once upon a time"}, {"max_tokens", 12}, {"seed", 5},
                          {"temperature", 1.5},           {"logprobs", 0},    {"n", 6}};
  const Answer all = post_json("/v1/completions", request);
  std::vector<std::pair<double, std::string>> ranked;
  for (const auto& choice : all.json["choices"]) {
    const auto logs = numbers(choice["logprobs"]["token_logprobs"], 0);
    double sum = 0;
    for (const float one : logs) sum += static_cast<double>(one);
    ranked.emplace_back(-sum / static_cast<double>(logs.size()), choice["text"]);
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& one) { return one.first; });
  request["n"] = 2;
  request["best_of"] = 6;
  for (const bool has_logprobs : {true, false}) {
    if (!has_logprobs) request.erase("logprobs");
    const Answer best = post_json("/v1/completions", request);
    ASSERT_EQ(best.json["choices"].size(), 2u) << best.reply.body;
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(best.json["choices"][i]["text"], ranked[i].second);
      EXPECT_EQ(best.json["choices"][i]["index"], i);
      EXPECT_EQ(best.json["choices"][i]["logprobs"].is_null(), !has_logprobs);
    }
    EXPECT_EQ(best.json["usage"]["completion_tokens"], all.json["usage"]["completion_tokens"]);
  }
}

TEST_F(ScoringApi, AllAnswersComeInTheOrderOfTheirSeeds) {
  start();
  ordered_json request = {{"prompt", "Once upon a time"}, {"max_tokens", 12}, {"temperature", 1.5}, {"logprobs", 0}};
  request["seed"] = 5;
  request["n"] = 4;
  for (const bool has_best : {false, true}) {
    if (has_best) request["best_of"] = 4;
    const Answer all = post_json("/v1/completions", request);
    ASSERT_EQ(all.json["choices"].size(), 4u) << all.reply.body;
    for (int i = 0; i < 4; ++i) {
      const ordered_json alone = {
          {"prompt", "Once upon a time"}, {"max_tokens", 12}, {"temperature", 1.5}, {"seed", 5 + i}};
      EXPECT_EQ(all.json["choices"][static_cast<size_t>(i)]["text"],
                post_json("/v1/completions", alone).json["choices"][0]["text"]);
    }
  }
}

TEST_F(ScoringApi, RefusesWhatCannotBe) {
  start();
  const auto refusal = [&](const ordered_json& more, const std::string& part) {
    ordered_json request = {{"prompt", "Hi"}, {"max_tokens", 1}};
    request.update(more);
    expect_refused(post_json("/v1/completions", request), 400, part);
  };
  refusal({{"best_of", 21}}, "'best_of': value 21, want 1 to 20");
  refusal({{"best_of", 2}, {"n", 3}}, "'best_of': value 2, want at least n = 3");
  refusal({{"best_of", 2}, {"stream", true}}, "'best_of': not with a stream");
  refusal({{"prompt_logprobs", 101}}, "'prompt_logprobs': value 101, want 0 to 100");
  refusal({{"prompt_logprobs", 1}, {"stream", true}}, "'prompt_logprobs': not with a stream");
  refusal({{"echo", 1}}, "'echo'");
  ordered_json many = ordered_json::array();
  for (int i = 0; i < 40; ++i) many.push_back(std::vector<int>(300, 5));
  refusal({{"prompt", many}, {"echo", true}, {"logprobs", 100}}, "log-probabilities of its tokens");
  refusal({{"prompt", many}, {"echo", true}, {"logprobs", 0}, {"n", 100}}, "1200000 log-probabilities of its tokens");
}

}  // namespace
}  // namespace tessera
