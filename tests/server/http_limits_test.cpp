// Limits of the HTTP server over loopback: each refusal with its status, and floods beside which others are served.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/http_server_fixture.h"

namespace tessera::testing {
namespace {

using server::HttpOptions;

class HttpLimiting : public HttpServerTest {
 protected:
  // The status of a request that is refused; its connection closes.
  int refusal_of(std::string_view bytes) {
    HttpClient client = connect();
    client.send(bytes);
    const HttpReply reply = client.read_answer();
    EXPECT_EQ(reply.field("connection"), "close") << bytes.substr(0, 80);
    EXPECT_TRUE(client.wait_for_end()) << bytes.substr(0, 80);
    return reply.status;
  }
};

std::string post_head(const std::string& fields, const std::string& path = "/echo") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

TEST_F(HttpLimiting, RefusesBrokenHeads) {
  start();
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\nHost: localhost\n\n"), 400);
  EXPECT_EQ(refusal_of("GET /health HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of(post_head("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(refusal_of("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n"), 414);
  EXPECT_EQ(refusal_of(post_head("A: " + std::string(17000, 'a') + "\r\n")), 431);
  EXPECT_EQ(refusal_of(post_head("Content-Encoding: gzip\r\nContent-Length: 9\r\n")), 415);
  EXPECT_EQ(refusal_of(post_head("Expect: x\r\nContent-Length: 9\r\n")), 417);
}

TEST_F(HttpLimiting, ARefusalHasTheBodyOfItsDialect) {
  HttpOptions options;
  options.write_problem = [](const server::HttpProblem& problem) -> server::HttpAnswer {
    return {.status = problem.status == 503 ? 529 : problem.status,
            .body = problem.path + "|" + std::string(problem.type) + "|" + problem.message + "|" + problem.request_id};
  };
  start(std::move(options));
  const auto reply = answer_to("GET /v1/messages?x HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\n\r\n");
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.body, "/v1/messages|not_found_error|File Not Found|mine");
  EXPECT_EQ(reply.field("x-request-id"), "mine");
  const auto broken = answer_to("GET /v1/mess%61ges HTTP/1.1\r\nHost : localhost\r\n\r\n");
  EXPECT_EQ(broken.status, 400);
  EXPECT_TRUE(broken.body.starts_with("/v1/messages|invalid_request_error|")) << broken.body;
}

TEST_F(HttpLimiting, WithoutADialectARefusalIsJson) {
  start();
  EXPECT_EQ(answer_to("GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n").body,
            R"({"error":{"code":404,"message":"File Not Found","type":"not_found_error"}})");
}

TEST_F(HttpLimiting, UnknownPathsAndMethodsKeepTheConnection) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/none"));
  EXPECT_EQ(client.read_answer().status, 404);
  ASSERT_TRUE(client.send("DELETE /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const auto reply = client.read_answer();
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.field("allow"), "POST, OPTIONS");
  ASSERT_TRUE(client.get("/health"));
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(finished_statuses(3), (std::vector<int>{404, 405, 200}));
  EXPECT_EQ(refusal_of(post_head("Content-Length: 5\r\n", "/none")), 404);  // its body stays unread
}

TEST_F(HttpLimiting, RefusesLargeBodiesBeforeReadingThem) {
  HttpOptions options;
  options.limits.body_bytes = 1000;
  start(std::move(options));
  EXPECT_EQ(refusal_of(post_head("Content-Length: 1001\r\n")), 413);
  EXPECT_EQ(refusal_of(post_head("Content-Length: 1000000000000000000\r\n")), 413);
  EXPECT_EQ(refusal_of(post_head("Content-Length: 1001\r\nExpect: 100-continue\r\n")), 413);
  EXPECT_EQ(refusal_of(post_head("Transfer-Encoding: chunked\r\n") + "3e8\r\n" + std::string(1000, 'a') + "\r\n1\r\n"),
            413);
  EXPECT_EQ(answer_to(post_head("Content-Length: 1000\r\n") + std::string(1000, 'a')).body, std::string(1000, 'a'));
}

TEST_F(HttpLimiting, RefusesBrokenChunks) {
  start();
  EXPECT_EQ(refusal_of(post_head("Transfer-Encoding: chunked\r\n") + "x\r\n"), 400);
  EXPECT_EQ(refusal_of(post_head("Transfer-Encoding: chunked\r\n") + "0\r\n" + std::string(5000, 'a')), 400);
}

TEST_F(HttpLimiting, AClientThatSendsALargeRefusedBodyReadsTheRefusal) {
  HttpOptions options;
  options.limits.body_bytes = 1000;
  start(std::move(options));
  HttpClient client = connect();
  ASSERT_TRUE(client.send(post_head("Content-Length: 20000000\r\n")));
  std::thread sender([&] { client.send(std::string(20'000'000, 'a')); });
  const auto reply = client.read_answer();
  sender.join();
  EXPECT_EQ(reply.status, 413);
}

TEST_F(HttpLimiting, HeldBodiesAreBounded) {
  HttpOptions options;
  options.limits.held_bytes = 100'000;
  start(std::move(options));
  HttpClient first = connect();
  ASSERT_TRUE(first.send(post_head("Content-Length: 70000\r\n", "/hold") + std::string(69'999, 'a')));
  ASSERT_TRUE(wait_until([&] { return server_->counts().n_held_bytes >= 69'999; }));
  EXPECT_EQ(refusal_of(post_head("Content-Length: 70000\r\n", "/hold") + std::string(69'999, 'a')), 503);
  ASSERT_TRUE(first.send("a"));
  const auto exchange = next_exchange();
  EXPECT_EQ(exchange->take_body().size(), 70'000u);
  exchange->answer({.body = "done"});
  EXPECT_EQ(first.read_answer().body, "done");
  EXPECT_TRUE(wait_until([&] { return server_->counts().n_held_bytes == 0; }));
  EXPECT_EQ(answer_to(post_head("Content-Length: 70000\r\n") + std::string(70'000, 'a')).status, 200);
}

TEST_F(HttpLimiting, HeldAnswersAreBounded) {
  HttpOptions options;
  options.limits.held_bytes = 100'000;
  start(std::move(options));
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/hold"));
  next_exchange()->answer({.body = std::string(100'001, 'a')});
  EXPECT_EQ(client.read_answer().status, 503);
}

TEST_F(HttpLimiting, AHeadHasATime) {
  HttpOptions options;
  options.limits.head_ms = 150;
  start(std::move(options));
  EXPECT_EQ(refusal_of("GET /health HTTP/1.1\r\n"), 408);
  EXPECT_EQ(refusal_of(""), 408);
  const HttpReply reply = answer_to("GET /health HTTP/1.1\r\n");
  EXPECT_NE(reply.body.find("The head took too long"), std::string::npos) << reply.body;
  EXPECT_EQ(finished_statuses(2), (std::vector<int>{408, 408})) << "one of the three had begun no request";
}

TEST_F(HttpLimiting, ABodyHasATimeWithoutProgress) {
  HttpOptions options;
  options.limits.body_stall_ms = 150;
  start(std::move(options));
  EXPECT_EQ(refusal_of(post_head("Content-Length: 5\r\n") + "abc"), 408);
  EXPECT_EQ(finished_statuses(1), std::vector<int>{408});
}

TEST_F(HttpLimiting, ABodyHasATimeInAll) {
  HttpOptions options;
  options.limits.body_ms = 300;
  start(std::move(options));
  HttpClient client = connect();
  ASSERT_TRUE(client.send(post_head("Content-Length: 1000000\r\n")));
  std::atomic<bool> is_done = false;
  std::thread sender([&] {
    while (!is_done && client.send("a")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  const HttpReply reply = client.read_answer();
  EXPECT_EQ(reply.status, 408);
  EXPECT_NE(reply.body.find("The body took too long"), std::string::npos) << reply.body;
  is_done = true;
  sender.join();
}

TEST_F(HttpLimiting, AnIdleConnectionCloses) {
  HttpOptions options;
  options.limits.idle_ms = 150;
  start(std::move(options));
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/health"));
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_TRUE(client.wait_for_end());
}

TEST_F(HttpLimiting, AConnectionHasSoManyRequests) {
  HttpOptions options;
  options.limits.n_requests = 3;
  start(std::move(options));
  HttpClient client = connect();
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(client.get("/health"));
    EXPECT_EQ(client.read_answer().field("connection"), i < 3 ? "" : "close");
  }
  EXPECT_TRUE(client.wait_for_end());
}

TEST_F(HttpLimiting, InputBesideARequestIsBounded) {
  start();
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/hold"));
  const auto exchange = next_exchange();
  ASSERT_TRUE(client.send(std::string(16 << 10, 'a')));
  EXPECT_FALSE(exchange->is_gone());
  client.send("b");
  EXPECT_TRUE(wait_until([&] { return exchange->is_gone(); }));
}

TEST_F(HttpLimiting, NewConnectionsCloseIdleOnesOldestFirst) {
  HttpOptions options;
  options.limits.n_connections = 4;
  start(std::move(options));
  std::vector<HttpClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().get("/health"));
    ASSERT_EQ(clients.back().read_answer().status, 200);
    ASSERT_TRUE(wait_until([&] { return server_->counts().n_idle == i + 1; }));
  }
  HttpClient fifth = connect();
  ASSERT_TRUE(fifth.get("/health"));
  EXPECT_EQ(fifth.read_answer().status, 200);
  EXPECT_TRUE(clients[0].wait_for_end());
  ASSERT_TRUE(clients[1].get("/health"));
  EXPECT_EQ(clients[1].read_answer().status, 200);
  EXPECT_EQ(server_->counts().n_refused, 0);
}

TEST_F(HttpLimiting, WithoutIdleConnectionsNewOnesAreRefused) {
  HttpOptions options;
  options.limits.n_connections = 2;
  start(std::move(options));
  std::vector<HttpClient> clients;
  std::vector<std::shared_ptr<server::Exchange>> exchanges;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().get("/hold"));
    exchanges.push_back(next_exchange());
  }
  HttpClient third = connect();
  EXPECT_EQ(third.read_answer().status, 503);
  EXPECT_TRUE(third.wait_for_end());
  EXPECT_EQ(server_->counts().n_refused, 1);
  clients[0].close();
  EXPECT_TRUE(wait_until([&] { return server_->counts().n_answering == 1; }));
  EXPECT_EQ(answer_to("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
}

// A refused connection stays open until its client has read the refusal.
TEST_F(HttpLimiting, RefusalsThatWaitForTheirClientsAreBounded) {
  HttpOptions options;
  options.limits.n_connections = 1;
  start(std::move(options));
  HttpClient first = connect();
  ASSERT_TRUE(first.get("/hold"));
  const auto exchange = next_exchange();
  std::vector<HttpClient> others;
  for (int i = 0; i < 40; ++i) others.push_back(connect());
  ASSERT_TRUE(wait_until([&] { return server_->counts().n_accepted == 41; }));
  EXPECT_TRUE(wait_until([&] { return server_->counts().n_refused == 40; }));
  EXPECT_EQ(std::ranges::count(others, 503, [](HttpClient& client) { return client.read_answer().status; }), 32);
}

// The hard limit of descriptors cannot be raised again, so another process has it.
TEST_F(HttpLimiting, ConnectionsFitTheDescriptorsOfTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto refuses_the_last_of_17 = [&] {
    const rlimit few{.rlim_cur = 130, .rlim_max = 130};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return false;
    HttpOptions options;
    options.limits.n_connections = 1000;
    start(std::move(options));
    std::vector<HttpClient> clients;
    std::vector<std::shared_ptr<server::Exchange>> exchanges;
    for (int i = 0; i < 16; ++i) {
      clients.push_back(connect());
      if (!clients.back().get("/hold")) return false;
      exchanges.push_back(next_exchange());
    }
    return connect().read_answer().status == 503;
  };
  EXPECT_EXIT(std::_Exit(refuses_the_last_of_17() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST_F(HttpLimiting, OnlyAQuarterMayBeWithoutAHead) {
  HttpOptions options;
  options.limits.n_connections = 16;
  start(std::move(options));
  std::vector<HttpClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().send("GET / HTTP/1.1\r\n"));
    ASSERT_TRUE(wait_until([&] { return server_->counts().n_accepted == i + 1; }));
  }
  EXPECT_EQ(clients[0].read_answer().status, 408);
  EXPECT_TRUE(wait_until([&] { return server_->counts().n_reading == 4; }));
  ASSERT_TRUE(clients[1].send("Host: localhost\r\n\r\n"));
  EXPECT_EQ(clients[1].read_answer().status, 404);
}

// Beyond a quarter, kept-alive connections that begin a head count as well.
TEST_F(HttpLimiting, SlowHeadsOnKeptConnectionsAreBoundedToo) {
  HttpOptions options;
  options.limits.n_connections = 16;
  start(std::move(options));
  std::vector<HttpClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().get("/health"));
    ASSERT_EQ(clients.back().read_answer().status, 200);
  }
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(wait_until([&] { return server_->counts().n_idle == 5 - i; }));
    ASSERT_TRUE(clients[static_cast<size_t>(i)].send("G"));
    ASSERT_TRUE(wait_until([&] { return server_->counts().n_idle == 4 - i; }));
  }
  EXPECT_EQ(clients[0].read_answer().status, 408);
}

TEST_F(HttpLimiting, HalfOpenRequestsDoNotStopOthers) {
  HttpOptions options;
  options.n_threads = 2;
  start(std::move(options));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int n = static_cast<int>(std::min<rlim_t>(all_or_few(5000, 500), limit.rlim_cur / 2 - 200));
  std::vector<HttpClient> clients;
  for (int i = 0; i < n; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(
        clients.back().send(i % 2 == 0 ? "POST /echo HTTP/1.1\r\nHost: loc" : post_head("Content-Length: 1000\r\n")));
  }
  ASSERT_TRUE(wait_until([&] { return server_->counts().n_accepted >= n; }));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(answer_to("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
  const auto counts = server_->counts();
  EXPECT_LE(counts.n_reading + counts.n_idle, n + 1);
  EXPECT_EQ(counts.n_refused, 0);
}

TEST_F(HttpLimiting, ServesAgainAfterDescriptorsRanOut) {
  start();
  HttpClient idle = connect();
  ASSERT_TRUE(idle.get("/health"));
  ASSERT_EQ(idle.read_answer().status, 200);
  std::vector<std::FILE*> files;
  HttpClient client = connect();  // its socket exists before the descriptors are gone
  ASSERT_TRUE(client.get("/health"));
  ASSERT_EQ(client.read_answer().status, 200);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  std::FILE* lowest = std::fopen("/dev/null", "r");
  const rlimit few{.rlim_cur = static_cast<rlim_t>(fileno(lowest)), .rlim_max = before.rlim_max};
  HttpClient waiting = connect();
  std::fclose(lowest);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  ASSERT_TRUE(waiting.is_open());
  ASSERT_TRUE(waiting.get("/health"));  // accepted once an idle connection has closed
  EXPECT_EQ(waiting.read_answer().status, 200);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(HttpLimiting, AHandlerWithoutMemoryIsA503) {
  server::Router router;
  router.add({"GET", "/throw", server::Access::key, [](std::shared_ptr<server::Exchange>) { throw std::bad_alloc(); }});
  router.add(
      {"GET", "/bug", server::Access::key, [](std::shared_ptr<server::Exchange>) { throw std::runtime_error("bug"); }});
  start({}, std::move(router));
  EXPECT_EQ(answer_to("GET /throw HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 503);
  EXPECT_EQ(answer_to("GET /bug HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 500);
  EXPECT_EQ(answer_to("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
}

}  // namespace
}  // namespace tessera::testing
