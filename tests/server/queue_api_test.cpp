// Places in the queue: a full queue refuses requests before it reads them, and a request without a task gives its place
// back.
#include <gtest/gtest.h>

#include "tests/server/api_support.h"
#include "tests/server/http_server_fixture.h"

namespace tessera {
namespace {

using namespace testing;

const std::vector<std::string> kGenerating = {
    "/completion",   "/infill",      "/v1/completions", "/v1/chat/completions",
    "/v1/responses", "/v1/messages", "/api/generate",   "/api/chat",
};
const std::vector<std::string> kEmbedding = {"/embedding", "/v1/embeddings", "/api/embed", "/api/embeddings"};

class QueueApi : public ApiTest {
 protected:
  void start_with(const server::QueueLimits& limits) {
    ApiSetup setup{.n_slots = 1, .embeddings = EmbeddingUse{.pooling = nn::Pooling::mean}};
    setup.options.api.has_metrics = true;
    setup.options.api.shifts_context = true;                   // so that a stream can go on without end
    setup.served.scheduler.stream_buffer = size_t{100} << 20;  // nobody reads the streams that occupy slots
    setup.served.scheduler.queue = limits;
    setup.served.embedder.queue = limits;
    start(std::move(setup));
  }
  void send(int64_t n_predict) {
    const ordered_json body = {{"prompt", "Once"}, {"n_predict", n_predict}, {"ignore_eos", true}, {"stream", true}};
    clients_.push_back(connect());
    EXPECT_TRUE(clients_.back().post("/completion", body.dump()));
  }
  /// Takes the only slot with an endless stream, and lets n requests wait for it.
  void occupy(int n) {
    send(-1);
    EXPECT_TRUE(clients_[0].read_piece(clients_[0].read_head()));
    for (int i = 0; i < n; ++i) send(2);
    EXPECT_TRUE(wait_until([&] { return n_waiting() == n; }));
  }
  int n_waiting() const {
    const std::string text = get("/metrics").reply.body, name = "\nllamacpp:requests_deferred ";
    const size_t at = text.find(name);
    EXPECT_NE(at, std::string::npos);
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + name.size()));
  }

  std::vector<HttpClient> clients_{};
};

TEST_F(QueueApi, AFullQueueRefusesRequestsBeforeItReadsThem) {
  start_with({.n_tasks = 2, .n_client_tasks = 10});
  occupy(2);
  for (const std::string& path : kGenerating) {
    SCOPED_TRACE(path);
    const Answer refused = post(path, "{");  // no JSON, which nobody notices
    EXPECT_GE(refused.status, 503);
    EXPECT_NE(refused.reply.body.find("The queue is full: 2 requests wait"), std::string::npos) << refused.reply.body;
    EXPECT_NE(refused.reply.field("retry-after"), "");
  }
  for (const std::string& path : kEmbedding) EXPECT_EQ(post(path, "{").status, 400) << path;  // another queue
  EXPECT_EQ(post("/tokenize", "{").status, 400);
  clients_[0].close();
  for (const int client : {1, 2}) EXPECT_EQ(clients_[client].read_answer().status, 200);
  for (const std::string& path : kGenerating) EXPECT_EQ(post(path, "{").status, 400) << path;
}

TEST_F(QueueApi, AWaitingStreamHearsOfItsPlace) {
  start_with({});
  occupy(1);
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/completion", R"({"prompt":"One","n_predict":2,"stream":true})"));
  const HttpReply head = client.read_head();
  EXPECT_EQ(client.read_piece(head), ": queue 1\n\n");
  EXPECT_EQ(client.read_piece(head), ": queue 1\n\n");  // each second
  clients_[0].close();
  EXPECT_TRUE(client.read_piece(head)->starts_with("data: "));
}

TEST_F(QueueApi, AStreamWithoutEventsGetsPings) {
  start_with({});
  occupy(0);
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/completion", R"({"prompt":"One","n_predict":2,"stream":true,"sse_ping_interval":0})"));
  const HttpReply head = client.read_head();
  EXPECT_TRUE(client.read_piece(head));  // its place
  for (int n_pings = 0; n_pings < 3;) {
    server_->tick();
    const auto piece = client.read_piece(head);
    ASSERT_TRUE(piece);
    if (*piece == ":\n\n") ++n_pings;
  }
}

TEST_F(QueueApi, PingsCanBeSwitchedOff) {
  start_with({});
  occupy(0);
  HttpClient silent = connect(), loud = connect();
  ASSERT_TRUE(silent.post("/completion", R"({"prompt":"One","n_predict":2,"stream":true,"sse_ping_interval":-1})"));
  const HttpReply silent_head = silent.read_head();
  EXPECT_TRUE(silent.read_piece(silent_head));  // its place
  ASSERT_TRUE(loud.post("/completion", R"({"prompt":"One","n_predict":2,"stream":true,"sse_ping_interval":0})"));
  const HttpReply head = loud.read_head();
  EXPECT_TRUE(loud.read_piece(head));
  for (int n_pings = 0; n_pings < 3;) {
    server_->tick();
    const auto piece = loud.read_piece(head);
    ASSERT_TRUE(piece);
    if (*piece == ":\n\n") ++n_pings;
  }
  clients_[0].close();
  while (const auto piece = silent.read_piece(silent_head)) EXPECT_NE(*piece, ":\n\n");
}

// Once a message has begun, its pings are events.
TEST_F(QueueApi, PingsOfAnthropicAreEvents) {
  start_with({});
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/v1/messages", R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,
      "max_tokens":100000,"ignore_eos":true,"sse_ping_interval":0})"));
  const HttpReply head = client.read_head();
  std::string text;
  const auto n_pings = [&] {
    size_t n = 0;
    for (size_t at = 0; (at = text.find("event: ping\n", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  const auto has_comment = [&] {
    const size_t begin = text.find("message_start");
    return begin != std::string::npos && text.find("\n:\n", begin) != std::string::npos;
  };
  while (n_pings() < 3 && !has_comment()) {
    server_->tick();
    const auto piece = client.read_piece(head);
    ASSERT_TRUE(piece);
    text += *piece;
  }
  EXPECT_FALSE(has_comment());
}

TEST_F(QueueApi, AClientHasItsOwnLimit) {
  start_with({.n_tasks = 10, .n_client_tasks = 1});
  occupy(1);
  expect_refused(post("/completion", "{"), 429, "Too many requests of this client wait: 1");
}

TEST_F(QueueApi, ARequestWithoutATaskGivesItsPlaceBack) {
  start_with({.n_tasks = 1});
  for (int round = 0; round < 3; ++round)
    for (const auto& paths : {kGenerating, kEmbedding})
      for (const std::string& path : paths) {
        EXPECT_EQ(post(path, "{").status, 400) << path;
        EXPECT_GE(post(path, R"({"temperature": "hot", "input": 5, "messages": 5})").status, 400) << path;
      }
  EXPECT_EQ(post_json("/completion", {{"prompt", "Once"}, {"n_predict", 2}}).status, 200);
  EXPECT_EQ(post_json("/v1/embeddings", {{"input", "Once"}}).status, 200);
}

TEST_F(QueueApi, AKeptStreamNeedsOnePlace) {
  start_with({.n_tasks = 1});
  const ordered_json chat = {
      {"messages", {{{"role", "user"}, {"content", "Once"}}}}, {"max_tokens", 2}, {"stream", true}};
  for (int i = 0; i < 3; ++i) {
    const Answer answer =
        post("/v1/chat/completions", chat.dump(), "X-Conversation-Id: c" + std::to_string(i) + "\r\n");
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
  }
}

}  // namespace
}  // namespace tessera
