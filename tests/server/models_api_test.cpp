// Several models in one server, over HTTP.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>

#include "tests/server/api_support.h"
#include "tests/support/wait.h"

namespace tessera {
namespace {

using namespace testing;
using server::ModelRegistry;

constexpr int64_t kLongContext = 1 << 17;  // tokens, more than any test waits for

/// Models with names of their own, all of the same file. A test can hold their loading.
class Stories final : public server::ModelSource {
 public:
  explicit Stories(std::vector<std::string> names) : names_(std::move(names)) {
    registry_ = create_registry("").value();
  }

  Result<std::vector<server::CatalogEntry>> list() override {
    std::vector<server::CatalogEntry> entries;
    for (const std::string& name : names_)
      entries.push_back({.name = name,
                         .path = story_model(),
                         .aliases = {name + "-alias"},
                         .settings = settings,
                         .origin = server::ModelOrigin::directory,
                         .is_loaded_first = first == name});
    return entries;
  }

  Result<server::PlannedModel> plan(const server::CatalogEntry& entry) override {
    if (entry.name == broken) return fail(ErrorCode::format, "{}: the file is damaged", entry.path);
    return server::PlannedModel{.n_bytes = n_bytes,
                                .load = [this](const LoadProgress& progress) { return load(progress); }};
  }

  void add(const std::string& name) { names_.push_back(name); }
  void remove(const std::string& name) { std::erase(names_, name); }

  void hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    changed_.notify_all();
  }

  /// Lets the model that was loaded last find its file changed.
  void lose_file() {
    const auto engine = engine_.lock();
    ASSERT_NE(engine, nullptr);
    EXPECT_TRUE(replace_lost_map(engine->files().files()[0]->map()->bytes().data()));
  }

  std::string broken{}, first{};
  std::vector<server::PresetSetting> settings{};
  uint64_t n_bytes = 100;
  server::QueueLimits queue{};
  std::atomic<int> n_loads{0};

 private:
  Result<server::ReadyModel> load(const LoadProgress& progress) {
    while (true) {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, std::chrono::milliseconds(5), [this] { return !is_held_; })) break;
      lock.unlock();
      if (!progress(0.25f)) return fail(ErrorCode::cancelled, "cancelled");
    }
    ++n_loads;
    server::ReadyModel ready;
    TESSERA_ASSIGN(ready.loaded, open_model(registry_, {.path = story_model()}));
    engine_ = ready.loaded.engine;
    TESSERA_TRY(load_session(ready.loaded, {.n_ctx = kLongContext, .n_sequences = 2, .n_outputs = 2}));
    ready.options = {.path = story_model(), .scheduler = {.n_slots = 2, .queue = queue}};
    return ready;
  }

  std::vector<std::string> names_;
  std::shared_ptr<Registry> registry_;
  std::weak_ptr<const Engine> engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
};

class ModelsApi : public ApiTest {
 protected:
  void TearDown() override {
    if (source_) source_->go_on();
    server_.reset();
  }

  void open(server::RegistryOptions options = {}) {
    server::ServerOptions setup;
    setup.http.port = 0;
    setup.api.has_metrics = true;
    ASSERT_OK_AND_ASSIGN(server_, server::Server::start(setup));
    ASSERT_OK(server_->serve(*source_, options, {}));
  }
  void open_two(server::RegistryOptions options = {}) {
    source_ = std::make_unique<Stories>(std::vector<std::string>{"ant", "bee"});
    open(options);
  }

  std::string state_of(const std::string& name) const {
    const Answer answer = get("/v1/models/" + name);
    return answer.json["status"]["value"];
  }
  void wait_for_state(const std::string& name, const std::string& state) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (state_of(name) != state && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(state_of(name), state);
  }
  // An exchange may hold its lease a moment longer than its client waits.
  template <class F>
  void tick_until(F is_done) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_done() && std::chrono::steady_clock::now() < deadline) server_->tick();
    EXPECT_TRUE(is_done());
  }
  static std::string completion(const std::string& model, int64_t n_predict = 4) {
    return ordered_json{
        {"model", model}, {"prompt", "Once upon"}, {"n_predict", n_predict}, {"temperature", 0}, {"ignore_eos", true}}
        .dump();
  }
  // A stream that has begun and goes on until the client leaves.
  HttpClient endless(const std::string& model) const {
    HttpClient client = connect();
    ordered_json body = ordered_json::parse(completion(model, -1));
    body["stream"] = true;
    EXPECT_TRUE(client.post("/completion", body.dump()));
    const HttpReply head = client.read_head();
    EXPECT_EQ(head.status, 200);
    EXPECT_TRUE(client.read_piece(head));
    return client;
  }

  std::unique_ptr<Stories> source_;
};

TEST_F(ModelsApi, ARequestLoadsItsModel) {
  open_two();
  EXPECT_EQ(get("/health").status, 200);
  const Answer before = get("/v1/models");
  ASSERT_EQ(before.json["data"].size(), 2u) << before.reply.body;
  EXPECT_EQ(before.json["data"][0]["id"], "ant");
  EXPECT_EQ(before.json["data"][0]["status"]["value"], "unloaded");
  EXPECT_EQ(before.json["data"][0]["source"], "models_dir");
  EXPECT_FALSE(before.json["data"][0].contains("meta"));
  const Answer answer =
      post("/v1/chat/completions", R"({"model":"bee","max_tokens":4,"messages":[{"role":"user","content":"Hi"}]})");
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_EQ(answer.json["model"], "bee");
  EXPECT_EQ(state_of("bee"), "loaded");
  EXPECT_EQ(state_of("ant"), "unloaded");
  EXPECT_EQ(get("/v1/models/bee").json["meta"]["n_ctx"], kLongContext);
  // The second request finds it.
  EXPECT_EQ(post("/completion", completion("bee-alias")).status, 200);
  EXPECT_EQ(source_->n_loads, 1);
}

TEST_F(ModelsApi, TheListShowsTheFlagsOfAModel) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant"});
  source_->settings = {{.key = "c", .value = "512"}, {.key = "temp", .value = "0.5"}};
  open();
  EXPECT_EQ(get("/v1/models/ant").json["status"]["args"].dump(), R"(["-c","512","--temp","0.5"])");
  EXPECT_EQ(get("/v1/models/ant").json["can_remove"], false);
}

TEST_F(ModelsApi, TheListIsReadAgainOnDemand) {
  open_two();
  source_->add("cow");
  for (const char* path : {"/models", "/models?reload=0"}) EXPECT_EQ(get(path).json["data"].size(), 2u) << path;
  const ordered_json read = get("/models?reload=1").json;
  ASSERT_EQ(read["data"].size(), 3u);
  EXPECT_EQ(read["data"][2]["id"], "cow");
  EXPECT_EQ(post("/completion", completion("cow")).status, 200);
  source_->remove("bee");
  source_->remove("cow");
  EXPECT_EQ(get("/models?reload=1").json["data"].size(), 2u);  // one that is loaded stays
  EXPECT_EQ(post("/models/unload", R"({"model":"cow"})").status, 200);
  EXPECT_TRUE(wait_until([&] { return get("/models").json["data"].size() == 1; }));
  EXPECT_EQ(get("/models").json["data"][0]["id"], "ant");
}

TEST_F(ModelsApi, TheTimeOfTheServerIsThatOfAModelWithoutItsOwn) {
  open_two({.keep_alive = std::chrono::milliseconds(0)});
  EXPECT_EQ(post("/api/generate", R"({"model":"ant"})").json["done_reason"], "load");
  tick_until([&] { return state_of("ant") == "unloaded"; });
  server_.reset();
  open_two({.keep_alive = std::chrono::hours(24 * 366 * 2)});
  const ordered_json loaded = post("/api/generate", R"({"model":"ant","stream":false})").json;
  const std::string year = loaded["created_at"].get<std::string>().substr(0, 4);
  const ordered_json running = get("/api/ps").json;
  EXPECT_GT(running["models"][0]["expires_at"].get<std::string>().substr(0, 4), year);
  EXPECT_EQ(post("/api/generate", R"({"model":"ant","keep_alive":"1m"})").status, 200);
  const ordered_json changed = get("/api/ps").json;
  EXPECT_LE(changed["models"][0]["expires_at"].get<std::string>().substr(0, 4), std::to_string(std::stoi(year) + 1));
}

TEST_F(ModelsApi, ProgressIsShownWhileAModelIsLoaded) {
  open_two();
  EXPECT_FALSE(get("/v1/models/ant").json["status"].contains("progress"));
  source_->hold();
  HttpClient waiting = connect();
  EXPECT_TRUE(waiting.post("/completion", completion("ant")));
  EXPECT_TRUE(wait_until([&] { return get("/v1/models/ant").json["status"].value("progress", 0.0) == 0.25; }));
  EXPECT_EQ(get("/v1/models/bee").json["status"].contains("progress"), false);
  source_->go_on();
  EXPECT_EQ(read(waiting).status, 200);
  EXPECT_FALSE(get("/v1/models/ant").json["status"].contains("progress"));
}

TEST_F(ModelsApi, RequestsThatWaitForModelsHaveAMostNumber) {
  open_two({.max_waiting = 2});
  source_->hold();
  std::vector<HttpClient> waiting;
  for (const char* name : {"ant", "bee"}) {
    waiting.push_back(connect());
    EXPECT_TRUE(waiting.back().post("/completion", completion(name)));
  }
  EXPECT_TRUE(wait_until([&] { return post("/completion", completion("ant")).status == 503; }));
  expect_refused(post("/completion", completion("bee")), 503, "2 requests wait for models");
  source_->go_on();
  for (HttpClient& client : waiting) EXPECT_EQ(read(client).status, 200);
}

TEST_F(ModelsApi, TextsAreThoseOfAServerWithOneModel) {
  start({.n_ctx = kLongContext});
  const std::string alone = post("/completion", completion("", 12)).json["content"];
  server_.reset();
  open_two();
  EXPECT_EQ(post("/completion", completion("ant", 12)).json["content"], alone);
  EXPECT_EQ(post("/completion", completion("bee", 12)).json["content"], alone);
}

TEST_F(ModelsApi, NamesMustBeKnown) {
  open_two();
  expect_refused(post("/completion", completion("cat")), 404, "model 'cat' not found");
  expect_refused(post("/completion", R"({"prompt":"a"})"), 400, "Field 'model': missing; this server has 2 models");
  expect_refused(post("/completion", "{"), 400, "not JSON");
  EXPECT_EQ(post("/api/chat", R"({"model":"cat","messages":[]})").status, 404);
  EXPECT_EQ(get("/v1/models/cat").status, 404);
  EXPECT_EQ(source_->n_loads, 0);
  // The only loaded model needs no name.
  EXPECT_EQ(post("/completion", completion("ant")).status, 200);
  EXPECT_EQ(post("/completion", R"({"prompt":"a","n_predict":1})").json["model"], "ant");
  EXPECT_EQ(post("/completion", completion("bee")).status, 200);
  expect_refused(post("/completion", R"({"prompt":"a"})"), 400, "missing");
}

TEST_F(ModelsApi, RoutesThatLookLoadNothing) {
  open_two();
  for (const char* path : {"/models", "/api/tags", "/api/ps", "/props", "/health"})
    EXPECT_EQ(get(path).status, 200) << path;
  EXPECT_EQ(get("/props").json["role"], "router");
  EXPECT_EQ(get("/api/tags").json["models"][1]["name"], "bee:latest");
  EXPECT_EQ(get("/api/ps").json["models"].size(), 0u);
  expect_refused(get("/props?model=ant"), 400, "model 'ant' is not loaded");
  expect_refused(get("/slots?model=bee"), 400, "model 'bee' is not loaded");
  EXPECT_EQ(source_->n_loads, 0);
  EXPECT_EQ(post("/completion", completion("ant")).status, 200);
  EXPECT_EQ(get("/props?model=ant").json["model_alias"], "ant");
  EXPECT_EQ(get("/slots?model=ant").json.size(), 2u);
  EXPECT_EQ(get("/api/ps").json["models"][0]["name"], "ant:latest");
}

TEST_F(ModelsApi, LoadingOnDemandCanBeSwitchedOff) {
  open_two({.loads_on_demand = false});
  expect_refused(post("/completion", completion("ant")), 400, "model 'ant' is not loaded");
  EXPECT_EQ(post("/models/load", R"({"model":"ant"})").json, ordered_json::parse(R"({"success":true})"));
  wait_for_state("ant", "loaded");
  EXPECT_EQ(post("/completion", completion("ant")).status, 200);
  expect_refused(post("/models/load", R"({"model":"ant"})"), 400, "loaded already");
  expect_refused(post("/models/load", R"({"model":"cat"})"), 404, "not found");
  expect_refused(post("/models/unload", R"({"model":"bee"})"), 400, "model 'bee' is not loaded");
  EXPECT_EQ(post("/models/unload", R"({"model":"ant"})").status, 200);
  wait_for_state("ant", "unloaded");
}

TEST_F(ModelsApi, ARequestCanForbidLoading) {
  open_two();
  expect_refused(post("/completion?autoload=false", completion("ant")), 400, "not loaded");
  EXPECT_EQ(source_->n_loads, 0);
}

TEST_F(ModelsApi, TheModelUsedLongestAgoMakesRoom) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant", "bee", "cow"});
  open({.max_loaded = 2});
  for (const char* name : {"ant", "bee", "ant", "cow"}) EXPECT_EQ(post("/completion", completion(name)).status, 200);
  EXPECT_EQ(state_of("ant"), "loaded");
  EXPECT_EQ(state_of("bee"), "unloaded");
  EXPECT_EQ(state_of("cow"), "loaded");
}

TEST_F(ModelsApi, ABusyModelIsWaitedFor) {
  open_two({.max_loaded = 1});
  HttpClient stream = endless("ant");
  HttpClient waiting = connect();
  EXPECT_TRUE(waiting.post("/completion", completion("bee")));
  wait_for_state("ant", "unloaded");  // for new requests
  EXPECT_EQ(state_of("bee"), "loading");
  EXPECT_EQ(source_->n_loads, 1);
  // The stream goes on.
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(stream.read_some().empty());
  stream.close();
  EXPECT_EQ(read(waiting).status, 200);
  EXPECT_EQ(state_of("bee"), "loaded");
}

TEST_F(ModelsApi, MemoryHasALimit) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant", "bee"});
  source_->n_bytes = 3 << 20;
  open({.memory_bytes = 5 << 20});
  EXPECT_EQ(post("/completion", completion("ant")).status, 200);
  EXPECT_EQ(post("/completion", completion("bee")).status, 200);
  EXPECT_EQ(state_of("ant"), "unloaded");
  source_->n_bytes = 6 << 20;
  expect_refused(post("/completion", completion("ant")), 503,
                 "it needs 6.0 MiB, and the limit of all models is 5.0 MiB");
  EXPECT_EQ(state_of("bee"), "loaded");  // nothing was unloaded in vain
  EXPECT_EQ(get("/v1/models/ant").json["status"]["failed"], true);
}

TEST_F(ModelsApi, AFailureIsToldAndCanBeMended) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant", "bee"});
  source_->broken = "ant";
  open();
  expect_refused(post("/completion", completion("ant")), 500, "model 'ant' could not be loaded");
  EXPECT_EQ(post("/completion", completion("bee")).status, 200);
  source_->broken.clear();
  EXPECT_EQ(post("/completion", completion("ant")).status, 200);
  EXPECT_FALSE(get("/v1/models/ant").json["status"].contains("failed"));
}

TEST_F(ModelsApi, OthersAreServedWhileAModelIsLoaded) {
  open_two();
  EXPECT_EQ(post("/completion", completion("bee")).status, 200);
  source_->hold();
  HttpClient waiting = connect();
  EXPECT_TRUE(waiting.post("/completion", completion("ant")));
  wait_for_state("ant", "loading");
  EXPECT_EQ(post("/completion", completion("bee")).status, 200);
  source_->go_on();
  EXPECT_EQ(read(waiting).status, 200);
}

TEST_F(ModelsApi, AClientThatLeftLoadsNothing) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant", "bee"});
  open();
  source_->hold();
  HttpClient first = connect();
  EXPECT_TRUE(first.post("/completion", completion("bee")));
  wait_for_state("bee", "loading");
  {
    HttpClient gone = connect();
    EXPECT_TRUE(gone.post("/completion", completion("ant")));
    while (get("/metrics?model=bee").status != 400) std::this_thread::yield();
    gone.reset();
  }
  source_->go_on();
  EXPECT_EQ(read(first).status, 200);
  EXPECT_EQ(post("/completion", completion("bee")).status, 200);
  wait_until_idle();
  EXPECT_LE(source_->n_loads, 2);
}

TEST_F(ModelsApi, EventsTellEachChange) {
  open_two();
  HttpClient client = connect();
  EXPECT_TRUE(client.get("/models/sse"));
  const HttpReply head = client.read_head();
  EXPECT_EQ(head.field("content-type"), "text/event-stream");
  std::string text;
  std::vector<std::string> states;
  const auto read_until = [&](const std::string& last) {
    while (states.empty() || states.back() != last) {
      const auto piece = client.read_piece(head);
      ASSERT_TRUE(piece);
      text += *piece;
      states.clear();
      for (const ordered_json& event : events_of(text)) {
        EXPECT_EQ(event["model"], "ant");
        EXPECT_EQ(event["event"], "model_status");
        EXPECT_FALSE(event["data"].contains("failed"));
        if (states.empty() || states.back() != event["data"]["status"]) states.push_back(event["data"]["status"]);
      }
    }
  };
  EXPECT_EQ(post("/completion", completion("ant")).status, 200);
  read_until("loaded");  // an event has the state of when it is written: an unloading at once could hide this one
  EXPECT_EQ(post("/models/unload", R"({"model":"ant"})").status, 200);
  read_until("unloaded");
  EXPECT_EQ(states, (std::vector<std::string>{"loading", "loaded", "unloaded"}));
  server_->drain();
  EXPECT_TRUE(client.read_all().ends_with("0\r\n\r\n"));
}

TEST_F(ModelsApi, EventsTellOfAFailure) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant"});
  source_->broken = "ant";
  open();
  HttpClient client = connect();
  EXPECT_TRUE(client.get("/models/sse"));
  const HttpReply head = client.read_head();
  EXPECT_FALSE(server_->is_idle());  // although no model works
  EXPECT_EQ(post("/completion", completion("ant")).status, 500);
  std::string text;
  ordered_json last;
  while (last.is_null() || last["data"]["status"] != "unloaded") {
    const auto piece = client.read_piece(head);
    ASSERT_TRUE(piece);
    text += *piece;
    if (const auto events = events_of(text); !events.empty()) last = events.back();
  }
  EXPECT_EQ(last["data"]["failed"], true);
  EXPECT_NE(last["data"]["error"].get<std::string>().find("damaged"), std::string::npos);
  server_->drain();
  EXPECT_TRUE(client.read_all().ends_with("0\r\n\r\n"));
}

TEST_F(ModelsApi, AnUnusedModelGoesWhenItsTimeHasCome) {
  open_two();
  const Answer answer = post("/api/generate", R"({"model":"ant","keep_alive":0})");
  EXPECT_EQ(answer.json["done_reason"], "unload");
  tick_until([&] { return state_of("ant") == "unloaded"; });
  EXPECT_EQ(post("/api/generate", R"({"model":"ant","keep_alive":"1h"})").json["done_reason"], "load");
  server_->tick();
  EXPECT_EQ(state_of("ant"), "loaded");
}

TEST_F(ModelsApi, TheOnlyModelCanSleep) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant"});
  open({.is_single = true, .sleep_after = std::chrono::milliseconds(0)});
  EXPECT_EQ(source_->n_loads, 1);
  EXPECT_EQ(post("/completion", R"({"model":"any","prompt":"a","n_predict":1})").status, 200);
  tick_until([&] { return get("/slots").status == 400; });
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(post("/completion", R"({"prompt":"a","n_predict":1})").status, 200);
  EXPECT_GE(source_->n_loads, 2);
}

TEST_F(ModelsApi, ModelsOfTheStartAreLoadedFirst) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant", "bee"});
  source_->first = "bee";
  open();
  wait_for_state("bee", "loaded");
  EXPECT_EQ(state_of("ant"), "unloaded");
}

TEST_F(ModelsApi, TheEndRefusesThoseThatWait) {
  open_two();
  source_->hold();
  HttpClient waiting = connect();
  EXPECT_TRUE(waiting.post("/completion", completion("ant")));
  wait_for_state("ant", "loading");
  server_->drain();
  const Answer answer = read(waiting);
  expect_refused(answer, 503, "shutting down");
}

TEST_F(ModelsApi, MetricsOfSeveralModelsAreGroupedByName) {
  open_two();
  EXPECT_EQ(get("/metrics").status, 200);
  EXPECT_EQ(post("/completion", completion("ant", 3)).status, 200);
  EXPECT_NE(get("/metrics").reply.body.find("\nllamacpp:tokens_predicted_total 3\n"), std::string::npos);
  EXPECT_EQ(post("/completion", completion("bee", 2)).status, 200);
  const std::string text = get("/metrics").reply.body;
  EXPECT_NE(text.find("# TYPE llamacpp:tokens_predicted_total counter\n"
                      "llamacpp:tokens_predicted_total{model=\"ant\"} 3\n"
                      "llamacpp:tokens_predicted_total{model=\"bee\"} 2\n# HELP "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("tessera_slots{model=\"ant\",state=\"idle\"} 2\n"), std::string::npos);
  const std::string one = get("/metrics?model=bee").reply.body;
  EXPECT_NE(one.find("\nllamacpp:tokens_predicted_total 2\n"), std::string::npos);
  EXPECT_EQ(one.find("ant"), std::string::npos);
}

TEST_F(ModelsApi, NothingIsFetchedOrRemoved) {
  open_two();
  expect_refused(post("/models", R"({"model":"x"})"), 501, "fetches no models");
}

TEST_F(ModelsApi, AModelWhoseFileHasChangedFailsAndIsLoadedAgain) {
  open_two();
  const std::string text = post("/completion", completion("bee")).json["content"];
  HttpClient first = endless("ant"), second = endless("ant");
  source_->lose_file();
  const HttpReply chunked{.fields = {{"transfer-encoding", "chunked"}}};
  for (HttpClient* client : {&first, &second}) {
    std::string rest;
    while (const auto piece = client->read_piece(chunked)) rest += *piece;
    EXPECT_NE(rest.find("the file changed while it was mapped"), std::string::npos) << rest;
  }
  expect_refused(post("/completion", completion("ant")), 500, "the file changed while it was mapped");
  EXPECT_EQ(post("/completion", completion("bee")).json["content"], text);
  tick_until([&] { return state_of("ant") == "unloaded"; });
  EXPECT_EQ(state_of("bee"), "loaded");
  EXPECT_EQ(post("/completion", completion("ant")).json["content"], text);
}

TEST_F(ModelsApi, TheOnlyModelIsLoadedAgainAfterItsFileHasChanged) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant"});
  open({.is_single = true, .retry_after = std::chrono::milliseconds(0)});
  const std::string text = post("/completion", completion("ant")).json["content"];
  source_->broken = "ant";
  source_->lose_file();
  EXPECT_EQ(get("/health").status, 200);  // nobody has looked
  tick_until([&] { return get("/health").status == 503; });
  expect_refused(post("/completion", completion("ant")), 500, "");
  expect_refused(get("/health"), 503, "the model cannot be used");
  source_->broken = "";  // the loader waits for the next tick
  tick_until([&] { return get("/health").status == 200; });
  EXPECT_EQ(source_->n_loads, 2);
  EXPECT_EQ(post("/completion", completion("ant")).json["content"], text);
}

TEST_F(ModelsApi, ARequestLoadsAFailedModelBeforeItsTime) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant"});
  open({.is_single = true, .retry_after = std::chrono::hours(1)});
  source_->broken = "ant";
  source_->lose_file();
  tick_until([&] { return get("/health").status == 503; });
  server_->tick();  // the first attempt
  expect_refused(post("/completion", completion("ant")), 500, "");
  source_->broken = "";
  for (int i = 0; i < 100; ++i) server_->tick();
  EXPECT_EQ(get("/health").status, 503);
  EXPECT_EQ(source_->n_loads, 1);
  EXPECT_EQ(post("/completion", completion("ant")).status, 200);
  EXPECT_EQ(get("/health").status, 200);
}

// Others can be used.
TEST_F(ModelsApi, AServerOfSeveralModelsIsHealthyWhenOneFails) {
  open_two({.retry_after = std::chrono::milliseconds(0)});
  source_->broken = "ant";
  expect_refused(post("/completion", completion("ant")), 500, "");
  EXPECT_EQ(get("/health").status, 200);
  source_->broken = "";
  server_->tick();
  EXPECT_EQ(post("/completion", completion("bee")).status, 200);  // after all that was to be loaded before
  EXPECT_EQ(state_of("ant"), "unloaded");
}

TEST_F(ModelsApi, AModelThatDoesNotWakeUpHasFailed) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant"});
  open({.is_single = true, .sleep_after = std::chrono::milliseconds(0)});
  server_->tick();  // it falls asleep
  EXPECT_EQ(get("/health").status, 200);
  source_->broken = "ant";
  expect_refused(post("/completion", completion("ant")), 500, "");
  EXPECT_EQ(get("/health").status, 503);
}

// The name of the model is all that is read of a request before it takes its place in the queue of that model.
TEST_F(ModelsApi, AFullQueueRefusesRequestsForItsModelOnly) {
  source_ = std::make_unique<Stories>(std::vector<std::string>{"ant", "bee"});
  source_->queue = {.n_tasks = 1};
  open();
  HttpClient first = endless("ant"), second = endless("ant"), third = connect();
  EXPECT_TRUE(third.post("/completion", completion("ant")));
  EXPECT_TRUE(wait_until(
      [&] { return get("/metrics").reply.body.find("\nllamacpp:requests_deferred 1\n") != std::string::npos; }));
  const std::vector<std::string> paths = {"/completion", "/v1/chat/completions"};
  const std::string wrong = R"({"model":"MODEL","prompt":{},"messages":5})";
  const auto wrong_for = [&](const std::string& model) {
    return std::string(wrong).replace(wrong.find("MODEL"), 5, model);
  };
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    expect_refused(post(path, wrong_for("ant")), 503, "The queue is full: 1 requests wait");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(post(path, wrong_for("bee")).status, 400);  // each gives its place back
  }
  first.close();
  EXPECT_EQ(third.read_answer().status, 200);
  for (const std::string& path : paths)
    for (int i = 0; i < 3; ++i) EXPECT_EQ(post(path, wrong_for("ant")).status, 400);
}

}  // namespace
}  // namespace tessera
