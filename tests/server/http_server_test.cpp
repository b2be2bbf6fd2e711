// The HTTP server over loopback: answers, keep-alive, pipelining, bodies, streams, and clients that leave.
#include <gtest/gtest.h>

#include <string>

#include "tests/server/http_server_fixture.h"

namespace tessera::testing {
namespace {

using server::HttpOptions;

class HttpServing : public HttpServerTest {};

TEST_F(HttpServing, AnswersARequest) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/health"));
  const HttpReply reply = client.read_answer();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"status":"ok"})");
  EXPECT_EQ(reply.field("content-type"), "application/json; charset=utf-8");
  EXPECT_EQ(reply.field("server"), "tessera");
  EXPECT_EQ(reply.field("connection"), "");
  EXPECT_FALSE(reply.field("x-request-id").empty());
  EXPECT_EQ(reply.field("x-request-id"), reply.field("request-id"));
}

TEST_F(HttpServing, KeepsAConnectionForFurtherRequests) {
  start();
  HttpClient client = connect();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(client.post("/echo", std::to_string(i)));
    ASSERT_EQ(client.read_answer().body, std::to_string(i));
  }
  EXPECT_EQ(server_->counts().n_accepted, 1);
  EXPECT_EQ(finished_statuses(50), std::vector<int>(50, 200));
}

TEST_F(HttpServing, AnswersPipelinedRequestsInOrder) {
  start();
  HttpClient client = connect();
  std::string requests;
  for (int i = 0; i < 100; ++i)
    requests += "POST /echo HTTP/1.1\r\nHost: a.localhost\r\nContent-Length: 2\r\n\r\n" + std::to_string(10 + i % 90);
  ASSERT_TRUE(client.send(requests));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(client.read_answer().body, std::to_string(10 + i % 90));
}

TEST_F(HttpServing, AnswersAPipelinedRequestAfterTheOneThatWaits) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/hold"));
  const auto exchange = next_exchange();
  ASSERT_TRUE(client.get("/health"));
  exchange->answer({.body = "first"});
  EXPECT_EQ(client.read_answer().body, "first");
  EXPECT_EQ(client.read_answer().body, R"({"status":"ok"})");
}

TEST_F(HttpServing, ReadsARequestOfSingleBytes) {
  start();
  HttpClient client = connect();
  for (const char c : std::string("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n"))
    ASSERT_TRUE(client.send({&c, 1}));
  EXPECT_EQ(client.read_answer().body, "abcde");
}

TEST_F(HttpServing, StreamsPiecesInChunks) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/hold"));
  const auto exchange = next_exchange();
  exchange->begin_stream({.body = "data: 0\n\n", .content_type = std::string(server::kEventStreamType)});
  const HttpReply head = client.read_head();
  EXPECT_TRUE(head.is_chunked());
  EXPECT_EQ(head.field("content-type"), "text/event-stream");
  EXPECT_EQ(head.field("cache-control"), "no-cache");
  EXPECT_EQ(head.field("x-accel-buffering"), "no");
  EXPECT_EQ(client.read_piece(head), "data: 0\n\n");
  exchange->write("data: 1\n\n");
  EXPECT_EQ(client.read_piece(head), "data: 1\n\n");
  exchange->end_stream();
  EXPECT_EQ(client.read_piece(head), std::nullopt);
  ASSERT_TRUE(client.get("/health"));  // the connection goes on
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(HttpServing, NoticesAClientThatLeaves) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/hold"));
  const auto exchange = next_exchange();
  std::atomic<int> n_calls = 0;
  exchange->on_gone([&] { ++n_calls; });
  EXPECT_FALSE(exchange->is_gone());
  client.close();
  EXPECT_TRUE(wait_until([&] { return n_calls == 1; }));
  EXPECT_TRUE(exchange->is_gone());
  exchange->answer({.body = "too late"});
  exchange->on_gone([&] { ++n_calls; });
  EXPECT_TRUE(wait_until([&] { return n_calls == 2; }));
  EXPECT_EQ(finished_statuses(1), std::vector<int>{499});
}

}  // namespace
}  // namespace tessera::testing
