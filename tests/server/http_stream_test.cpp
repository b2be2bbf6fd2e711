// Answers over loopback: streams, slow readers, old clients, HEAD, and the end of the server.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/server/http_server_fixture.h"

namespace tessera::testing {
namespace {

using server::HttpOptions;

class HttpStreaming : public HttpServerTest {
 protected:
  // A client of /hold and its exchange.
  std::shared_ptr<server::Exchange> hold(HttpClient& client, std::string_view fields = "") {
    EXPECT_TRUE(client.get("/hold", fields));
    return next_exchange();
  }
};

std::string read_stream(HttpClient& client, const HttpReply& head) {
  std::string all;
  while (const auto piece = client.read_piece(head)) all += *piece;
  return all;
}

TEST_F(HttpStreaming, PiecesOfManyThreadsArriveWhole) {
  start();
  HttpClient client = connect();
  const auto exchange = hold(client);
  exchange->begin_stream({});
  constexpr int kWriters = 4, kPieces = 500;
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i)
    writers.emplace_back([&, i] {
      for (int j = 0; j < kPieces; ++j) exchange->write(std::string(3, static_cast<char>('a' + i)) + "\n");
    });
  for (auto& writer : writers) writer.join();
  exchange->end_stream();
  const std::string all = read_stream(client, client.read_head());
  EXPECT_EQ(all.size(), 4u * kWriters * kPieces);
  for (size_t i = 0; i < all.size(); i += 4) {
    ASSERT_EQ(all[i], all[i + 2]);
    ASSERT_EQ(all[i + 3], '\n');
  }
}

TEST_F(HttpStreaming, PiecesOfOneTaskLeaveInOneChunk) {
  start();
  HttpClient client = connect();
  const auto exchange = hold(client);
  exchange->post([exchange] {
    exchange->begin_stream({});
    for (int i = 0; i < 10; ++i) exchange->write(std::to_string(i));
  });
  const HttpReply head = client.read_head();
  EXPECT_EQ(client.read_piece(head), "0123456789");
  exchange->end_stream();
}

TEST_F(HttpStreaming, ASlowReaderIsSeenAndOthersGoOn) {
  start();
  HttpClient slow = connect();
  const int small = 64 << 10;
  ::setsockopt(slow.descriptor(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  const auto exchange = hold(slow);
  EXPECT_EQ(exchange->n_unsent(), 0u);
  EXPECT_EQ(exchange->stalled_ms(), 0);
  exchange->begin_stream({});
  const std::string piece(1000, 'x');
  size_t n_written = 0;
  constexpr size_t kPause = 256 << 10;
  EXPECT_TRUE(wait_until([&] {
    while (exchange->n_unsent() < kPause) {
      exchange->write(piece);
      n_written += piece.size();
    }
    return exchange->stalled_ms() > 100;
  }));
  EXPECT_GE(exchange->n_unsent(), kPause);
  EXPECT_LT(n_written, size_t{4} << 20);  // the system's buffers are bounded as well
  EXPECT_LT(server_->counts().n_held_bytes, kPause + (64 << 10));
  HttpClient quick = connect();
  ASSERT_TRUE(quick.get("/health"));
  EXPECT_EQ(quick.read_answer().status, 200);
  exchange->end_stream();
  EXPECT_EQ(read_stream(slow, slow.read_head()).size(), n_written);
  EXPECT_TRUE(wait_until([&] { return exchange->n_unsent() == 0 && server_->counts().n_held_bytes == 0; }));
  EXPECT_EQ(exchange->stalled_ms(), 0);
}

TEST_F(HttpStreaming, AWholeAnswerThatNobodyReadsEnds) {
  HttpOptions options;
  options.limits.body_stall_ms = 200;
  start(std::move(options));
  HttpClient client = connect();
  const auto exchange = hold(client);
  exchange->answer({.body = std::string(32 << 20, 'x')});
  EXPECT_EQ(finished_statuses(1), std::vector<int>{499});
  EXPECT_EQ(server_->counts().n_held_bytes, 0u);
}

TEST_F(HttpStreaming, UnsentBytesOfAllStreamsAreBounded) {
  HttpOptions options;
  options.limits.held_bytes = 8 << 20;
  start(std::move(options));
  HttpClient client = connect();
  const auto exchange = hold(client);
  exchange->begin_stream({});
  std::atomic<bool> is_told = false;
  exchange->on_gone([&] { is_told = true; });
  for (int i = 0; i < 64 && !exchange->is_gone(); ++i) exchange->write(std::string(1 << 20, 'x'));
  EXPECT_TRUE(wait_until([&] { return is_told.load(); }));
  EXPECT_TRUE(wait_until([&] { return server_->counts().n_held_bytes == 0; }));
}

TEST_F(HttpStreaming, LargeAnswersArriveWhole) {
  start();
  HttpClient client = connect();
  std::string body(5 << 20, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 % 251);
  ASSERT_TRUE(client.post("/echo", body));
  EXPECT_TRUE(client.read_answer().body == body);
}

TEST_F(HttpStreaming, AnAbortedStreamHasNoEnd) {
  start();
  HttpClient client = connect();
  const auto exchange = hold(client);
  exchange->begin_stream({.body = "a"});
  const HttpReply head = client.read_head();
  EXPECT_EQ(client.read_piece(head), "a");
  exchange->abort();
  EXPECT_EQ(client.read_some(), "");
  EXPECT_TRUE(exchange->is_gone());
}

TEST_F(HttpStreaming, OldClientsReadUpToTheEnd) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.send("GET /hold HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"));
  const auto exchange = next_exchange();
  exchange->begin_stream({.body = "a"});
  exchange->write("b");
  exchange->end_stream();
  const HttpReply reply = client.read_answer();
  EXPECT_FALSE(reply.is_chunked());
  EXPECT_EQ(reply.field("connection"), "close");
  EXPECT_EQ(reply.body, "ab");
}

TEST_F(HttpStreaming, OldClientsKeepAConnectionOnlyIfTheyAsk) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.send("GET /health HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"));
  EXPECT_EQ(client.read_answer().field("connection"), "keep-alive");
  ASSERT_TRUE(client.send("GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n"));
  EXPECT_EQ(client.read_answer().field("connection"), "close");
  EXPECT_TRUE(client.wait_for_end());
}

TEST_F(HttpStreaming, HeadHasNoBody) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const HttpReply head = client.read_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.field("content-length"), "15");
  ASSERT_TRUE(client.send("HEAD /hold HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const auto exchange = next_exchange();
  exchange->begin_stream({.body = "a"});
  exchange->write("b");
  exchange->end_stream();
  EXPECT_TRUE(client.read_head().is_chunked());
  ASSERT_TRUE(client.get("/health"));  // nothing is before its answer
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(HttpStreaming, ClosesWhenAsked) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/health", "Connection: close\r\n"));
  EXPECT_EQ(client.read_answer().field("connection"), "close");
  EXPECT_TRUE(client.wait_for_end());
}

TEST_F(HttpStreaming, ContinuesWhenExpected) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(
      client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(client.read_answer().status, 100);
  ASSERT_TRUE(client.send("ab"));
  EXPECT_EQ(client.read_answer().body, "ab");
}

TEST_F(HttpStreaming, AClientMayEndItsSideAfterTheRequest) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/echo", std::string(1 << 20, 'x')));
  client.end_sending();
  EXPECT_EQ(client.read_answer().body.size(), 1u << 20);
}

TEST_F(HttpStreaming, OnlyTheFirstAnswerCounts) {
  start();
  HttpClient client = connect();
  const auto exchange = hold(client);
  exchange->answer({.body = "first"});
  exchange->answer({.body = "second"});
  exchange->begin_stream({.body = "third"});
  exchange->write("x");
  exchange->end_stream();
  EXPECT_EQ(client.read_answer().body, "first");
  ASSERT_TRUE(client.get("/health"));
  EXPECT_EQ(client.read_answer().body, R"({"status":"ok"})");
}

TEST_F(HttpStreaming, AResetIsAClientThatLeaves) {
  start();
  HttpClient client = connect();
  const auto exchange = hold(client);
  exchange->begin_stream({.body = "a"});
  client.reset();
  EXPECT_TRUE(wait_until([&] { return exchange->is_gone(); }));
  EXPECT_EQ(finished_statuses(1), std::vector<int>{499});
}

TEST_F(HttpStreaming, TasksRunOnTheThreadTheyAreFor) {
  HttpOptions options;
  options.n_threads = 2;
  start(std::move(options));
  ASSERT_EQ(server_->n_threads(), 2u);
  std::array<std::atomic<std::thread::id>, 2> ids{};
  for (size_t i = 0; i < 2; ++i) server_->post(i, [&, i] { ids[i] = std::this_thread::get_id(); });
  ASSERT_TRUE(wait_until([&] { return ids[0].load() != std::thread::id() && ids[1].load() != std::thread::id(); }));
  EXPECT_NE(ids[0].load(), ids[1].load());
  for (int i = 0; i < 4; ++i) {  // connections spread over both
    HttpClient client = connect();
    const auto exchange = hold(client);
    std::atomic<std::thread::id> id{};
    exchange->post([&] { id = std::this_thread::get_id(); });
    ASSERT_TRUE(wait_until([&] { return id.load() != std::thread::id(); }));
    EXPECT_EQ(id.load(), ids[exchange->io_thread()].load());
    exchange->answer({});
    client.read_answer();
  }
}

TEST_F(HttpStreaming, DrainLetsRequestsEnd) {
  start();
  HttpClient idle = connect(), busy = connect();
  ASSERT_TRUE(idle.get("/health"));
  ASSERT_EQ(idle.read_answer().status, 200);
  const auto exchange = hold(busy);
  EXPECT_FALSE(server_->is_idle());
  server_->drain();
  EXPECT_TRUE(idle.wait_for_end());
  EXPECT_TRUE(wait_until([&] { return !connect().get("/health") || !connect().is_open(); }));
  EXPECT_FALSE(server_->is_idle());
  exchange->answer({.body = "last"});
  const auto reply = busy.read_answer();
  EXPECT_EQ(reply.body, "last");
  EXPECT_EQ(reply.field("connection"), "close");
  EXPECT_TRUE(busy.wait_for_end());
  EXPECT_TRUE(wait_until([&] { return server_->is_idle(); }));
}

TEST_F(HttpStreaming, StopEndsAllAndExchangesOutliveTheServer) {
  start();
  HttpClient client = connect();
  const auto exchange = hold(client);
  exchange->begin_stream({.body = "a"});
  std::atomic<int> n_calls = 0;
  exchange->on_gone([&] { ++n_calls; });
  server_->stop();
  EXPECT_EQ(n_calls, 1);
  server_.reset();
  exchange->write("b");
  exchange->end_stream();
  exchange->post([&] { ++n_calls; });
  EXPECT_TRUE(exchange->is_gone());
  exchange->on_gone([&] { ++n_calls; });  // no thread is left to call it
  EXPECT_EQ(n_calls, 2);
}

}  // namespace
}  // namespace tessera::testing
