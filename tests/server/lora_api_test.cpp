// LoRA adapters of requests: GET and POST /lora-adapters, the field `lora`, and what keeps their results apart.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "tests/server/api_support.h"
#include "tests/server/http_server_fixture.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;

class LoraApi : public ApiTest {
 protected:
  static void SetUpTestSuite() {
    first_ = write_lora(story_model(), "first.gguf", 4, 8, 1);
    second_ = write_lora(story_model(), "second.gguf", 2, 2, 2);
  }

  /// Starts a server with two adapters: 0 of scale 0.5 and 1 of scale 0.
  void start_with_loras(ApiSetup setup = {}) {
    server_.reset();
    if (setup.adapters.loras.empty()) setup.adapters.loras = {{first_, 0.5f}, {second_, 0.0f}};
    start(std::move(setup));
  }

  static ordered_json request(const std::string& lora, int n_predict = 12) {
    ordered_json body{{"prompt", kPrompt}, {"n_predict", n_predict}, {"temperature", 0.8},
                      {"seed", 5},         {"n_probs", 2},           {"ignore_eos", true}};
    if (!lora.empty()) body["lora"] = ordered_json::parse(lora);
    return body;
  }
  /// Text and log-probabilities of an answer.
  static std::string bits(const Answer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json["content"].dump() + answer.json["completion_probabilities"].dump();
  }
  static int64_t n_cached(const Answer& answer) { return answer.json["timings"]["cache_n"]; }
  Answer complete(const std::string& lora) const { return post_json("/completion", request(lora)); }

  static constexpr const char* kPrompt =
      "Once upon a time there was a little dog who liked to play with the cat in the big garden behind the red house.";
  static inline std::string first_, second_;
};

TEST_F(LoraApi, TheAdaptersAreListed) {
  AdapterFile named = AdapterFile::lora("llama", 1);
  named.builder.set("adapter.lora.task_name", std::string_view("rhymes"));
  named.builder.set("adapter.lora.prompt_prefix", std::string_view("In verse: "));
  ASSERT_OK_AND_ASSIGN(const auto model, ModelFiles::open(story_model()));
  named.add_pair(matrices_of(*model).front(), 2, 0.5f);
  const std::string path = named.write("named.gguf");
  start_with_loras({.adapters = {.loras = {{first_, 0.5f}, {path, 1.0f}}, .control_vectors = {}}});
  EXPECT_EQ(get("/lora-adapters").reply.body,
            R"([{"id":0,"path":")" + first_ + R"(","scale":0.5,"task_name":"","prompt_prefix":""},{"id":1,"path":")" +
                path + R"(","scale":1,"task_name":"rhymes","prompt_prefix":"In verse: "}])");
}

TEST_F(LoraApi, AServerWithoutAdaptersHasAnEmptyList) {
  start();
  EXPECT_EQ(get("/lora-adapters").reply.body, "[]");
  EXPECT_EQ(post("/lora-adapters", "[]").reply.body, R"({"success":true})");
  expect_refused(post("/lora-adapters", R"([{"id":0,"scale":1}])"), 400, "no LoRA adapters");
  expect_refused(complete(R"([{"id":0,"scale":1}])"), 400, "Field 'lora': the server has no LoRA adapters");
}

TEST_F(LoraApi, ARequestNamesItsAdapters) {
  start_with_loras();
  const std::string of_server = bits(complete(""));
  EXPECT_EQ(bits(complete(R"([{"id":0,"scale":0.5}])")), of_server);
  EXPECT_EQ(bits(complete(R"([{"id":1,"scale":0},{"id":0,"scale":0.5}])")), of_server);
  const std::string none = bits(complete("[]")), other = bits(complete(R"([{"id":1,"scale":1}])")),
                    both = bits(complete(R"([{"id":1,"scale":1},{"id":0,"scale":0.5}])"));
  EXPECT_NE(none, of_server);
  EXPECT_NE(other, of_server);
  EXPECT_NE(other, none);
  EXPECT_NE(both, of_server);
  EXPECT_NE(both, other);
  EXPECT_EQ(bits(complete(R"([{"id":0}])")), none);  // a scale that is absent is 0
  server_.reset();
  start();
  EXPECT_EQ(bits(complete("")), none);  // the model's own bits
}

TEST_F(LoraApi, TheServersScalesChangeForLaterRequests) {
  start_with_loras();
  const std::string first = bits(complete("")), second = bits(complete(R"([{"id":1,"scale":0.75}])"));
  EXPECT_EQ(post("/lora-adapters", R"([{"id":1,"scale":0.75}])").reply.body, R"({"success":true})");
  const ordered_json listed = get("/lora-adapters").json;
  EXPECT_EQ(listed[0]["scale"], 0);  // absent
  EXPECT_EQ(listed[1]["scale"], 0.75);
  EXPECT_EQ(bits(complete("")), second);
  for (const char* bad : {R"([{"id":2,"scale":1}])", R"([{"id":-1,"scale":1}])", R"([{"id":0},{"id":0}])", R"({})",
                          R"([{"scale":1}])", R"([5])", R"([{"id":0,"scale":"x"}])", R"([{"id":0,"scale":1e39}])", ""})
    EXPECT_EQ(post("/lora-adapters", bad).status, 400) << bad;
  expect_refused(post("/lora-adapters", R"([{"id":2,"scale":1}])"), 400, "[0].id': value 2, want 0 to 1");
  EXPECT_EQ(bits(complete("")), second);
  EXPECT_EQ(post("/lora-adapters", R"([{"id":0,"scale":0.5}])").status, 200);
  EXPECT_EQ(bits(complete("")), first);
}

// A slot that has computed the same tokens with other adapters has nothing to give.
TEST_F(LoraApi, ReusedChunksAreOfTheSameSet) {
  start_with_loras();
  std::vector<int> whole;
  for (int i = 0; i < 120; ++i) whole.push_back(5 + i * 7 % 400);
  std::vector<int> shortened = whole;
  shortened.erase(shortened.begin() + 30, shortened.begin() + 60);
  const auto body = [](const std::vector<int>& prompt, const char* lora) {
    return ordered_json{{"prompt", prompt}, {"n_predict", 1}, {"lora", ordered_json::parse(lora)}};
  };
  post_json("/completion", body(whole, "[]"));
  post_json("/completion", body(shortened, R"([{"id":1,"scale":1}])"));
  shortened.push_back(9);
  ordered_json last = body(shortened, "[]");
  last["n_cache_reuse"] = 16;
  EXPECT_EQ(n_cached(post_json("/completion", last)), 90);
}

TEST_F(LoraApi, SetsShareBatchesWithTheBitsOfEachAlone) {
  const std::vector<std::string> sets = {"[]", R"([{"id":0,"scale":0.5}])", R"([{"id":1,"scale":-1}])",
                                         R"([{"id":0,"scale":1.5},{"id":1,"scale":0.25}])"};
  start_with_loras();
  std::vector<std::string> alone;
  for (const std::string& set : sets) {
    ordered_json body = request(set, 40);
    body["cache_prompt"] = false;
    alone.push_back(bits(post_json("/completion", body)));
  }
  for (const bool uses_cache : {false, true}) {
    std::vector<Answer> mixed(2 * sets.size());
    std::vector<std::thread> clients;
    for (size_t i = 0; i < mixed.size(); ++i)
      clients.emplace_back([&, i] {
        ordered_json body = request(sets[i % sets.size()], 40);
        body["cache_prompt"] = uses_cache;
        mixed[i] = post_json("/completion", body);
      });
    for (std::thread& client : clients) client.join();
    for (size_t i = 0; i < mixed.size(); ++i) EXPECT_EQ(bits(mixed[i]), alone[i % sets.size()]) << i;
  }
}

TEST_F(LoraApi, SetsShareNoPrefix) {
  start_with_loras();
  const std::string first = R"([{"id":0,"scale":0.5}])", scaled = R"([{"id":0,"scale":0.25}])", none = "[]";
  for (const std::string& set : {first, scaled, none}) {
    const Answer cold = complete(set);
    EXPECT_EQ(n_cached(cold), 0) << set;
    const Answer warm = complete(set);
    EXPECT_EQ(n_cached(warm), warm.json["tokens_evaluated"].get<int64_t>() - 1) << set;
    EXPECT_EQ(bits(warm), bits(cold));
  }
  EXPECT_GT(n_cached(complete("")), 0);  // the server's scales are those of the first set
}

TEST_F(LoraApi, ASlotsTokensAreOfItsAdapters) {
  start_with_loras();
  ordered_json body = request(R"([{"id":0,"scale":0.5}])");
  body["id_slot"] = 1;
  EXPECT_EQ(n_cached(post_json("/completion", body)), 0);
  EXPECT_GT(n_cached(post_json("/completion", body)), 0);
  body["lora"] = ordered_json::array();
  EXPECT_EQ(n_cached(post_json("/completion", body)), 0);
}

TEST_F(LoraApi, SlotFilesKeepTheAdapters) {
  ApiSetup setup;
  setup.options.storage.slot_directory = temporary_path("lora_slots");
  std::filesystem::remove_all(setup.options.storage.slot_directory);
  std::filesystem::create_directory(setup.options.storage.slot_directory);
  start_with_loras(setup);
  ordered_json body = request(R"([{"id":1,"scale":1}])");
  body["id_slot"] = 0;
  const Answer first = post_json("/completion", body);
  const Answer saved = post("/slots/0?action=save", R"({"filename":"a"})");
  ASSERT_EQ(saved.status, 200) << saved.reply.body;
  EXPECT_EQ(saved.json["n_saved"], first.json["tokens_cached"]);

  // The same adapters under other ids.
  setup.adapters.loras = {{second_, 0.0f}, {first_, 0.0f}, {second_, 1.0f}};
  start_with_loras(setup);
  ASSERT_EQ(post("/slots/2?action=restore", R"({"filename":"a"})").status, 200);
  body["id_slot"] = 2;
  EXPECT_EQ(n_cached(post_json("/completion", body)), 0);  // adapter 1 is another one now
  ASSERT_EQ(post("/slots/2?action=restore", R"({"filename":"a"})").status, 200);
  body["lora"] = ordered_json::parse(R"([{"id":0,"scale":1}])");
  const Answer second = post_json("/completion", body);
  EXPECT_EQ(n_cached(second), first.json["tokens_evaluated"].get<int64_t>() - 1);
  EXPECT_EQ(bits(second), bits(first));

  setup.adapters.loras = {{first_, 1.0f}};
  start_with_loras(setup);
  expect_refused(post("/slots/0?action=restore", R"({"filename":"a"})"), 400, "an adapter that this server does not");
}

TEST_F(LoraApi, TheDiskTierKeepsSetsApart) {
  ApiSetup setup;
  setup.options.storage.cache_directory = temporary_path("lora_cache");
  setup.served.scheduler.always_restores = true;
  std::filesystem::remove_all(setup.options.storage.cache_directory);
  const auto long_request = [](const std::string& lora) {
    ordered_json body = request(lora);
    body["prompt"] = ordered_json::array();
    for (int i = 0; i < 130; ++i) body["prompt"].push_back(5 + i);
    return body;
  };
  const auto n_files = [&] {
    size_t n = 0;
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator at(setup.options.storage.cache_directory, error), end;
         at != end && !error; at.increment(error))
      n += at->is_regular_file(error) && !at->path().filename().string().starts_with(".") ? 1 : 0;
    return n;
  };
  start_with_loras(setup);
  const std::string named = R"([{"id":1,"scale":1}])";
  const Answer first = post_json("/completion", long_request(named));
  ASSERT_TRUE(wait_until([&] { return n_files() == 2; })) << n_files();
  start_with_loras(setup);
  EXPECT_EQ(n_cached(post_json("/completion", long_request(""))), 0);
  EXPECT_EQ(n_cached(post_json("/completion", long_request(R"([{"id":1,"scale":0.5}])"))), 0);
  EXPECT_EQ(n_cached(post_json("/completion", long_request("[]"))), 0);
  const Answer second = post_json("/completion", long_request(named));
  EXPECT_EQ(n_cached(second), 128);
  EXPECT_EQ(bits(second), bits(first));
  // The digest is that of the adapter's file, not of its place.
  setup.adapters.loras = {{second_, 1.0f}, {first_, 1.0f}};
  start_with_loras(setup);
  const Answer third = post_json("/completion", long_request(R"([{"id":0,"scale":1}])"));
  EXPECT_EQ(n_cached(third), 128);
  EXPECT_EQ(bits(third), bits(first));
}

TEST_F(LoraApi, ControlVectorsAlwaysApply) {
  ASSERT_OK_AND_ASSIGN(const auto model, ModelFiles::open(story_model()));
  ASSERT_OK_AND_ASSIGN(const auto n_embd, model->metadata().get<uint32_t>("llama.embedding_length"));
  AdapterFile vector = AdapterFile::control_vector();
  vector.add_random("direction.1", {int64_t{n_embd}}, 1.0f);
  const std::string path = vector.write("vector.gguf");
  start_with_loras();
  const std::string without = bits(complete("[]"));
  start_with_loras({.adapters = {.loras = {{first_, 0.5f}}, .control_vectors = {{path, 2.0f}}}});
  EXPECT_EQ(get("/lora-adapters").json.size(), 1u);
  const std::string with = bits(complete("[]"));
  EXPECT_NE(with, without);
  EXPECT_NE(bits(complete("")), with);
  EXPECT_EQ(post("/lora-adapters", "[]").status, 200);
  EXPECT_EQ(bits(complete("")), with);
}

TEST_F(LoraApi, TheSettingsOfAnAnswerShowTheListOfTheRequest) {
  start_with_loras();
  const auto shown = [&](const std::string& lora) { return complete(lora).json["generation_settings"]["lora"].dump(); };
  EXPECT_EQ(shown(""), "[]");
  EXPECT_EQ(shown(R"([{"id":1,"scale":0.25},{"id":0}])"), R"([{"id":0,"scale":0},{"id":1,"scale":0.25}])");
}

TEST_F(LoraApi, EveryDialectTakesTheField) {
  start_with_loras();
  const ordered_json messages = ordered_json::parse(R"([{"role":"user","content":"Tell me a story about a dog"}])");
  const auto text = [&](const std::string& path, ordered_json body, const char* lora) {
    body["seed"] = 3;
    body["ignore_eos"] = true;
    if (lora != nullptr) body["lora"] = ordered_json::parse(lora);
    const Answer answer = post_json(path, body);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    for (const char* volatile_key : {"id", "created", "created_at", "timings", "usage"}) {
      ordered_json& json = const_cast<ordered_json&>(answer.json);
      json.erase(volatile_key);
    }
    return answer.json.dump();
  };
  const std::pair<const char*, ordered_json> calls[] = {
      {"/v1/completions", {{"prompt", kPrompt}, {"max_tokens", 12}}},
      {"/v1/chat/completions", {{"messages", messages}, {"max_tokens", 12}}},
      {"/v1/messages", {{"messages", messages}, {"max_tokens", 12}}}};
  for (const auto& [path, body] : calls) {
    const std::string of_server = text(path, body, nullptr);
    EXPECT_EQ(text(path, body, R"([{"id":0,"scale":0.5}])"), of_server) << path;
    EXPECT_NE(text(path, body, "[]"), of_server) << path;
  }
}

TEST_F(LoraApi, EmbeddingsHaveTheServersScales) {
  start_with_loras({.embeddings = EmbeddingUse{.pooling = nn::Pooling::mean}});
  const auto vector = [&] { return post("/embedding", R"({"content":"a little dog"})").json.dump(); };
  const std::string at_start = vector();
  EXPECT_EQ(post("/lora-adapters", "[]").status, 200);
  const std::string without = vector();
  EXPECT_NE(without, at_start);
  EXPECT_EQ(post("/lora-adapters", R"([{"id":0,"scale":0.5}])").status, 200);
  EXPECT_EQ(vector(), at_start);
}

}  // namespace
}  // namespace tessera
