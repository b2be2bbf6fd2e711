// Streams that outlive their connection, over HTTP: X-Conversation-Id, /v1/stream and /v1/streams/lookup.
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>

#include "tests/server/api_support.h"
#include "tests/server/http_server_fixture.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kKeptContext = 1 << 17;  // tokens, more than any test waits for

class KeptStreamsApi : public ApiTest {
 protected:
  static std::string chat(int64_t n_tokens, const std::string& model = "") {
    ordered_json body = {{"messages", {{{"role", "user"}, {"content", "Tell a story"}}}},
                         {"max_tokens", n_tokens},
                         {"seed", 1},
                         {"ignore_eos", true},
                         {"stream", true}};
    if (!model.empty()) body["model"] = model;
    return body.dump();
  }
  static std::string id_field(const std::string& id) { return "X-Conversation-Id: " + id + "\r\n"; }

  /// Begins a stream and returns its client once its first bytes have come.
  HttpClient begin(const std::string& id, int64_t n_tokens, const std::string& fields = "") const {
    HttpClient client = connect();
    EXPECT_TRUE(client.post("/v1/chat/completions", chat(n_tokens), id_field(id) + fields));
    const HttpReply head = client.read_head();
    EXPECT_EQ(head.status, 200);
    EXPECT_TRUE(client.read_piece(head));
    return client;
  }
  Answer follow(const std::string& id, const std::string& from = "0", const std::string& fields = "") const {
    return get("/v1/stream?conv_id=" + id + "&from=" + from, fields);
  }
  Answer remove(const std::string& id, const std::string& fields = "") const {
    HttpClient client = connect();
    EXPECT_TRUE(client.send("DELETE /v1/stream?conv_id=" + id + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n"));
    return read(client);
  }
  ordered_json look_up(const std::string& id, const std::string& fields = "") const {
    const Answer answer = post("/v1/streams/lookup", ordered_json{{"conversation_ids", {id}}}.dump(), fields);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json;
  }
  void wait_until_done(const std::string& id) const {
    EXPECT_TRUE(wait_until([&] {
      const ordered_json found = look_up(id);
      return found.size() == 1 && found[0]["is_done"] == true;
    }));
  }
  static std::string text_of(const std::string& body) {
    bool is_done = false;
    std::string text;
    for (ordered_json& event : events_of(body, &is_done))
      if (const ordered_json& content = event["choices"][0]["delta"]["content"]; content.is_string())
        text += content.get<std::string>();
    EXPECT_TRUE(is_done) << body;
    return text;
  }
};

TEST_F(KeptStreamsApi, AStreamGoesOnWithoutItsClient) {
  start();
  const Answer whole = post("/v1/chat/completions", chat(200));
  { HttpClient client = begin("a%20b", 200); }
  wait_until_done("a%20b");
  const Answer replay = follow("a%2520b");
  ASSERT_EQ(replay.status, 200) << replay.reply.body;
  EXPECT_EQ(replay.reply.field("content-type"), "text/event-stream");
  EXPECT_TRUE(replay.reply.is_complete);
  EXPECT_EQ(text_of(replay.reply.body), text_of(whole.reply.body));

  const ordered_json facts = look_up("a%20b")[0];
  std::vector<std::string> keys;
  for (const auto& [key, value] : facts.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"conversation_id", "is_done", "total_bytes", "kept_from", "started_at",
                                            "completed_at"}));
  EXPECT_EQ(facts["total_bytes"], replay.reply.body.size());
  EXPECT_EQ(facts["kept_from"], 0);
  EXPECT_GE(facts["completed_at"], facts["started_at"]);
}

TEST_F(KeptStreamsApi, AReaderBeginsAtAnyByte) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/v1/chat/completions", chat(50), id_field("c")));
  const std::string whole = client.read_answer().body;
  EXPECT_EQ(follow("c").reply.body, whole);
  EXPECT_EQ(follow("c", "77").reply.body, whole.substr(77));
  const Answer end = follow("c", std::to_string(whole.size()));
  EXPECT_EQ(end.status, 200);
  EXPECT_EQ(end.reply.body, "");
  expect_refused(follow("c", std::to_string(whole.size() + 1)), 400, "beyond");
  for (const char* from : {"-1", "x", "1x", "", "99999999999999999999"})
    expect_refused(follow("c", from), 400, "'from'");
  expect_refused(get("/v1/stream"), 400, "conv_id");
  expect_refused(follow("d"), 404, "No stream");
}

TEST_F(KeptStreamsApi, TwoReadersFollowARunningStream) {
  start({.n_ctx = kKeptContext});
  HttpClient first = begin("c", -1);
  HttpClient second = connect();
  ASSERT_TRUE(second.get("/v1/stream?conv_id=c"));
  const HttpReply head = second.read_head();
  ASSERT_EQ(head.status, 200);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(second.read_piece(head));
  first.close();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(second.read_piece(head));
  EXPECT_EQ(look_up("c")[0]["is_done"], false);
  EXPECT_TRUE(look_up("c")[0]["completed_at"].is_null());

  // A stop is seen as the end of the stream.
  EXPECT_EQ(remove("c").status, 204);
  std::string rest;
  while (const auto piece = second.read_piece(head)) rest += *piece;
  EXPECT_TRUE(rest.ends_with("data: [DONE]\n\n")) << rest;
  EXPECT_EQ(look_up("c"), ordered_json::array());
  EXPECT_EQ(follow("c").status, 404);
  EXPECT_EQ(remove("c").status, 204);
  wait_until_idle();
}

TEST_F(KeptStreamsApi, AClientThatDoesNotReadStopsNothing) {
  ApiSetup setup{.n_ctx = kKeptContext};
  setup.served.scheduler.stream_buffer = 16 << 10;  // would pause any other stream
  setup.served.scheduler.slow_reader_ms = 50;
  start(std::move(setup));
  ordered_json body = ordered_json::parse(chat(3000));
  body["logprobs"] = true;
  body["top_logprobs"] = 100;  // more bytes than sockets hold
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/v1/chat/completions", body.dump(), id_field("c")));
  wait_until_done("c");
  const ordered_json facts = look_up("c")[0];
  EXPECT_GT(facts["total_bytes"], 10 << 20);
  EXPECT_GT(facts["kept_from"], 0);
  expect_refused(follow("c"), 400, "before the first byte");
  const Answer rest = follow("c", facts["kept_from"].dump());
  EXPECT_EQ(rest.reply.body.size(), facts["total_bytes"].get<size_t>() - facts["kept_from"].get<size_t>());
  EXPECT_NE(rest.reply.body.find("\"predicted_n\":3000"), std::string::npos);
}

TEST_F(KeptStreamsApi, ANewStreamReplacesTheOlderOne) {
  start({.n_slots = 1, .n_ctx = kKeptContext});
  HttpClient old = begin("c", -1);
  HttpClient fresh = connect();
  ASSERT_TRUE(fresh.post("/v1/chat/completions", chat(5), id_field("c")));
  const std::string body = fresh.read_answer().body;
  EXPECT_EQ(follow("c").reply.body, body);
  EXPECT_NE(body.find("data: [DONE]"), std::string::npos);
}

TEST_F(KeptStreamsApi, OtherClientsSeeNothing) {
  ApiSetup setup{.n_ctx = kKeptContext};
  setup.options.http.api_keys = {"one", "two"};
  start(std::move(setup));
  const std::string one = "Authorization: Bearer one\r\n", two = "Authorization: Bearer two\r\n";
  const HttpClient client = begin("c", -1, one);
  EXPECT_EQ(look_up("c", two), ordered_json::array());
  EXPECT_EQ(follow("c", "0", two).status, 404);
  EXPECT_EQ(remove("c", two).status, 204);
  // The same id is another stream.
  { const HttpClient other = begin("c", 5, two); }
  EXPECT_EQ(look_up("c", one).size(), 1u);
  EXPECT_EQ(look_up("c", one)[0]["is_done"], false);
  EXPECT_EQ(remove("c", one).status, 204);
}

TEST_F(KeptStreamsApi, TheIdIsBoundedAndOnlyOfStreams) {
  start();
  expect_refused(post("/v1/chat/completions", chat(2), id_field(std::string(257, 'x'))), 400, "257 bytes");
  const std::string longest(256, 'x');
  EXPECT_EQ(post("/v1/chat/completions", chat(2), id_field(longest)).status, 200);
  EXPECT_EQ(look_up(longest).size(), 1u);
  ordered_json body = ordered_json::parse(chat(2));
  body["stream"] = false;
  EXPECT_EQ(post("/v1/chat/completions", body.dump(), id_field("c")).status, 200);
  EXPECT_EQ(look_up("c"), ordered_json::array());
  // A refused request leaves nothing.
  body["stream"] = true;
  body["top_p"] = 5;
  expect_refused(post("/v1/chat/completions", body.dump(), id_field("c")), 400, "top_p");
  EXPECT_EQ(look_up("c"), ordered_json::array());

  expect_refused(post("/v1/streams/lookup", "{}"), 400, "conversation_ids");
  expect_refused(post("/v1/streams/lookup", R"({"conversation_ids":[5]})"), 400, "conversation_ids[0]");
  ordered_json many{{"conversation_ids", ordered_json::array()}};
  for (int i = 0; i < 1025; ++i) many["conversation_ids"].push_back("x");
  expect_refused(post_json("/v1/streams/lookup", many), 400, "conversation_ids");
}

TEST_F(KeptStreamsApi, OtherDialectsKeepTheirStreams) {
  start();
  const ordered_json message{
      {"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 4}, {"stream", true}};
  const Answer anthropic = post("/v1/messages", message.dump(), id_field("a"));
  EXPECT_NE(anthropic.reply.body.find("message_stop"), std::string::npos);
  EXPECT_EQ(follow("a").reply.body, anthropic.reply.body);
  const ordered_json response{{"input", "Hi"}, {"max_output_tokens", 4}, {"stream", true}};
  const Answer responses = post("/v1/responses", response.dump(), id_field("r"));
  EXPECT_NE(responses.reply.body.find("response.incomplete"), std::string::npos);
  EXPECT_EQ(follow("r").reply.body, responses.reply.body);
}

TEST_F(KeptStreamsApi, TheServersEndAndDeadlinesEndKeptStreams) {
  start({.n_ctx = kKeptContext});
  ordered_json body = ordered_json::parse(chat(-1));
  body["timeout_ms"] = 50;
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/v1/chat/completions", body.dump(), id_field("timed")));
  client.read_head();
  client.close();
  wait_until_done("timed");

  { const HttpClient left = begin("c", -1); }
  HttpClient reader = connect();
  ASSERT_TRUE(reader.get("/v1/stream?conv_id=c"));
  const HttpReply head = reader.read_head();
  ASSERT_EQ(head.status, 200);
  server_->drain();
  EXPECT_FALSE(server_->is_idle());
  server_->end_requests();
  std::string rest;
  while (const auto piece = reader.read_piece(head)) rest += *piece;
  EXPECT_NE(rest.find("shutting down"), std::string::npos) << rest.substr(rest.size() - 300);
  wait_until_idle();
}

TEST_F(KeptStreamsApi, TheLogHasALineForTheLateEnd) {
  const std::string path = temporary_path("kept.log");
  std::filesystem::remove(path);
  ApiSetup setup{.n_ctx = kKeptContext};
  setup.options.access_log = path;
  start(std::move(setup));
  { const HttpClient left = begin("c", 3000); }
  wait_until_done("c");
  server_.reset();
  std::vector<ordered_json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const ordered_json one = ordered_json::parse(line, nullptr, false);
    if (one["route"] == "/v1/chat/completions") lines.push_back(one);
  }
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["status"], 499);
  EXPECT_FALSE(lines[0].contains("reason"));
  EXPECT_EQ(lines[1]["status"], 200);
  EXPECT_EQ(lines[1]["id"], lines[0]["id"]);
  EXPECT_EQ(lines[1]["predicted_n"], 3000);
  EXPECT_EQ(lines[1]["reason"], "length");
}

// --- while the model loads

class HeldModel final : public server::ModelSource {
 public:
  Result<std::vector<server::CatalogEntry>> list() override {
    return std::vector{server::CatalogEntry{
        .name = "ant", .path = story_model(), .aliases = {}, .origin = server::ModelOrigin::directory}};
  }
  Result<server::PlannedModel> plan(const server::CatalogEntry&) override {
    return server::PlannedModel{.n_bytes = 100, .load = [this](const LoadProgress&) { return load(); }};
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    changed_.notify_all();
  }

 private:
  Result<server::ReadyModel> load() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_held_; });
    TESSERA_ASSIGN(std::shared_ptr<Registry> registry, create_registry(""));
    server::ReadyModel ready;
    TESSERA_ASSIGN(ready.loaded, open_model(registry, {.path = story_model()}));
    TESSERA_TRY(load_session(ready.loaded, {.n_ctx = 512, .n_sequences = 2, .n_outputs = 2}));
    ready.options = {.path = story_model(), .scheduler = {.n_slots = 2}};
    return ready;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = true;
};

TEST_F(KeptStreamsApi, AStreamWaitsForItsModelWithoutItsClient) {
  HeldModel source;
  server::ServerOptions setup;
  setup.http.port = 0;
  ASSERT_OK_AND_ASSIGN(server_, server::Server::start(setup));
  ASSERT_OK(server_->serve(source, {}, {}));
  HttpClient left = connect(), stopped = connect();
  ASSERT_TRUE(left.post("/v1/chat/completions", chat(5, "ant"), id_field("left")));
  ASSERT_TRUE(stopped.post("/v1/chat/completions", chat(5, "ant"), id_field("stopped")));
  EXPECT_TRUE(wait_until([&] { return look_up("left").size() + look_up("stopped").size() == 2; }));
  left.close();
  const Answer early = follow("left");
  expect_refused(early, 503, "Loading model");
  EXPECT_EQ(early.reply.field("retry-after"), "1");
  EXPECT_EQ(look_up("left")[0]["total_bytes"], 0);

  EXPECT_EQ(remove("stopped").status, 204);
  const Answer refusal = read(stopped);
  expect_refused(refusal, 400, "stopped");
  EXPECT_EQ(refusal.json["error"]["type"], "cancelled");
  source.go_on();
  wait_until_done("left");
  EXPECT_FALSE(text_of(follow("left").reply.body).empty());
  server_.reset();
}

}  // namespace
}  // namespace tessera
