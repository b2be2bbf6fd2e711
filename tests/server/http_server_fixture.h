// A server on a free port of 127.0.0.1 for tests, with a few routes: /echo, /health, /hold, /stream and others that a
// test adds. Requests to /hold and /stream wait until the test answers them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/server/http/http_server.h"
#include "tests/server/http_client.h"
#include "tests/support/testing.h"
#include "tests/support/wait.h"

namespace tessera::testing {

class HttpServerTest : public ::testing::Test {
 protected:
  struct Finished {
    std::string path;
    int status;
    std::string id;
  };

  void start(server::HttpOptions options = {}, server::Router router = {}) {
    options.port = 0;
    options.on_finished = [this](const server::HttpRequest& request, int status) {
      const std::lock_guard lock(mutex_);
      finished_.push_back({request.path, status, request.id});
    };
    add_routes(router);
    auto started = server::HttpServer::start(std::move(options), std::move(router));
    ASSERT_OK(started);
    server_ = std::move(*started);
  }

  HttpClient connect() const { return HttpClient::connect(server_->port()); }

  /// The answer of a new connection to these bytes.
  HttpReply answer_to(std::string_view bytes) const {
    HttpClient client = connect();
    client.send(bytes);
    return client.read_answer();
  }

  /// Waits for the next exchange of /hold or /stream.
  std::shared_ptr<server::Exchange> next_exchange() {
    EXPECT_TRUE(wait_until([&] {
      const std::lock_guard lock(mutex_);
      return !held_.empty();
    }));
    const std::lock_guard lock(mutex_);
    if (held_.empty()) return nullptr;
    auto exchange = held_.front();
    held_.erase(held_.begin());
    return exchange;
  }

  std::vector<Finished> finished() {
    const std::lock_guard lock(mutex_);
    return finished_;
  }

  /// Waits until n requests have ended, and returns their statuses.
  std::vector<int> finished_statuses(size_t n) {
    EXPECT_TRUE(wait_until([&] { return finished().size() >= n; }));
    std::vector<int> statuses;
    for (const Finished& one : finished()) statuses.push_back(one.status);
    return statuses;
  }

  void TearDown() override {
    if (server_) server_->stop();
    held_.clear();
  }

  std::unique_ptr<server::HttpServer> server_{};

 private:
  void add_routes(server::Router& router) {
    using server::Access;
    using server::Exchange;
    const auto hold = [this](std::shared_ptr<Exchange> exchange) {
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(exchange));
    };
    router.add({"GET", "/health", Access::open,
                [](std::shared_ptr<Exchange> exchange) { exchange->answer({.body = R"({"status":"ok"})"}); }});
    router.add({"POST", "/echo", Access::key, [](std::shared_ptr<Exchange> exchange) {
                  exchange->answer({.body = exchange->take_body(), .content_type = "text/plain"});
                }});
    router.add({"GET", "/client", Access::open, [](std::shared_ptr<Exchange> exchange) {
                  const server::Client& client = exchange->request().client;
                  exchange->answer({.body = client.name + " " + std::to_string(client.best_priority) +
                                            (client.has_key ? " key" : "") + (client.is_on_loopback ? " here" : "")});
                }});
    router.add({"GET", "/hold", Access::key, hold});
    router.add({"POST", "/hold", Access::key, hold});
  }

  std::mutex mutex_{};
  std::vector<std::shared_ptr<server::Exchange>> held_{};
  std::vector<Finished> finished_{};
};

}  // namespace tessera::testing
