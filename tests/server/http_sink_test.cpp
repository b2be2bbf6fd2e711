// Bodies that a sink takes as they come.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/server/http_server_fixture.h"

namespace tessera {
namespace {

using namespace testing;
using server::BodySink;

/// Collects what it gets. A test decides when it is full, or fails.
struct Recorder {
  std::mutex mutex{};
  std::string bytes{};
  std::function<void()> resume{};
  size_t full_at = SIZE_MAX, fails_at = SIZE_MAX;
  std::atomic<int> n_open{0};

  size_t size() {
    const std::lock_guard lock(mutex);
    return bytes.size();
  }
  /// Lets the sink take bytes up to a new limit.
  void go_on(size_t until) {
    std::function<void()> f;
    {
      const std::lock_guard lock(mutex);
      full_at = until;
      f = resume;
    }
    f();
  }
};

class RecordingSink final : public BodySink {
 public:
  explicit RecordingSink(Recorder& recorder) : recorder_(recorder) { ++recorder_.n_open; }
  ~RecordingSink() override { --recorder_.n_open; }
  State write(std::string_view bytes) override {
    const std::lock_guard lock(recorder_.mutex);
    recorder_.bytes += bytes;
    if (recorder_.bytes.size() >= recorder_.fails_at) return State::failed;
    return recorder_.bytes.size() >= recorder_.full_at ? State::full : State::ready;
  }
  server::BodyError error() const override { return {507, "the disk is full"}; }

 private:
  Recorder& recorder_;
};

class HttpSink : public HttpServerTest {
 protected:
  void start_with(server::HttpOptions options = {}) {
    options.limits.body_bytes = 1000;
    options.limits.held_bytes = 6 << 20;
    server::Router router;
    router.add({.method = "POST",
                .path = "/sink",
                .handler =
                    [this](std::shared_ptr<server::Exchange> exchange) {
                      EXPECT_TRUE(exchange->request().body.empty());
                      EXPECT_NE(exchange->request().sink, nullptr);
                      exchange->answer({.body = std::to_string(recorder_.size()), .content_type = "text/plain"});
                    },
                .open_body = [this](const server::HttpRequest& request, std::function<void()> resume)
                    -> std::expected<std::shared_ptr<BodySink>, server::BodyError> {
                  if (request.field("x-refuse")) return std::unexpected(server::BodyError{403, "not here"});
                  recorder_.resume = std::move(resume);
                  return std::make_shared<RecordingSink>(recorder_);
                }});
    start(std::move(options), std::move(router));
  }
  static std::string text(size_t n) {
    std::string text(n, '\0');
    for (size_t i = 0; i < n; ++i) text[i] = static_cast<char>('a' + i * 7 % 26);
    return text;
  }

  Recorder recorder_{};
};

TEST_F(HttpSink, GetsABodyBeyondTheLimitOfOthers) {
  start_with();
  const std::string body = text(8 << 20);
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/sink", body));
  EXPECT_EQ(client.read_answer().body, std::to_string(body.size()));
  EXPECT_TRUE(recorder_.bytes == body);
  ASSERT_TRUE(client.post("/sink", ""));  // the connection goes on
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_TRUE(wait_until([&] { return recorder_.n_open == 0 && server_->counts().n_held_bytes == 0; }));
  ASSERT_TRUE(client.post("/echo", body.substr(0, 1001)));
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST_F(HttpSink, GetsTheDataOfChunks) {
  start_with();
  const std::string body = text(3000);
  EXPECT_EQ(answer_to("POST /sink HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                      body.substr(0, 2000) + "\r\n3e8\r\n" + body.substr(2000) + "\r\n0\r\n\r\n")
                .body,
            "3000");
  EXPECT_EQ(recorder_.bytes, body);
  EXPECT_EQ(answer_to("POST /sink HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n").status, 400);
}

// While it is full, the server reads nothing: the client's bytes stay in the buffers of the system.
TEST_F(HttpSink, IsNotReadForWhileItIsFull) {
  start_with();
  recorder_.full_at = 100'000;
  const std::string body = text(32 << 20);
  HttpClient client = connect();
  std::thread sender([&] { client.post("/sink", body); });
  EXPECT_TRUE(wait_until([&] { return recorder_.size() >= 100'000; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const size_t n = recorder_.size();
  EXPECT_LT(n, 300'000u);  // and a read more at most
  recorder_.go_on(1'000'000);
  EXPECT_TRUE(wait_until([&] { return recorder_.size() >= 1'000'000; }));
  EXPECT_LT(recorder_.size(), 1'200'000u);
  recorder_.go_on(SIZE_MAX);
  sender.join();
  EXPECT_EQ(client.read_answer().body, std::to_string(body.size()));
  EXPECT_TRUE(recorder_.bytes == body);
}

TEST_F(HttpSink, ThatStaysFullEndsTheRequest) {
  server::HttpOptions options;
  options.limits.body_stall_ms = 50;
  start_with(std::move(options));
  recorder_.full_at = 10;
  HttpClient client = connect();
  client.send("POST /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + text(20));
  EXPECT_EQ(client.read_answer().status, 408);
  EXPECT_TRUE(wait_until([&] { return recorder_.n_open == 0; }));
  recorder_.go_on(SIZE_MAX);  // too late
  EXPECT_EQ(answer_to("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
}

TEST_F(HttpSink, RefusesAtTheHeadAndInTheMiddle) {
  start_with();
  HttpClient refused = connect();
  refused.send(
      "POST /sink HTTP/1.1\r\nHost: localhost\r\nX-Refuse: 1\r\nExpect: 100-continue\r\n"
      "Content-Length: 1000000\r\n\r\n");
  const HttpReply reply = refused.read_answer();
  EXPECT_EQ(reply.status, 403);
  EXPECT_NE(reply.body.find("not here"), std::string::npos) << reply.body;
  recorder_.fails_at = 500;
  HttpClient client = connect();
  client.send("POST /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + text(600));
  EXPECT_EQ(client.read_answer().status, 507);
  EXPECT_TRUE(wait_until([&] { return recorder_.n_open == 0; }));
}

TEST_F(HttpSink, EndsWhenTheClientLeaves) {
  start_with();
  HttpClient client = connect();
  client.send("POST /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + text(20));
  EXPECT_TRUE(wait_until([&] { return recorder_.size() == 20; }));
  client.close();
  EXPECT_TRUE(wait_until([&] { return recorder_.n_open == 0 && server_->counts().n_held_bytes == 0; }));
}

TEST_F(HttpSink, HasRoomInTheMemoryOfBodies) {
  start_with();  // for one sink
  recorder_.full_at = 10;
  HttpClient first = connect();
  first.send("POST /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + text(20));
  EXPECT_TRUE(wait_until([&] { return recorder_.size() == 20; }));
  EXPECT_EQ(answer_to("POST /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n").status, 503);
}

}  // namespace
}  // namespace tessera
