// A server in this process with a small model, and a client that speaks JSON.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/app.h"
#include "tessera/server/server.h"
#include "tests/server/http_client.h"
#include "tests/support/testing.h"

namespace tessera::testing {

using nlohmann::ordered_json;

struct ApiSetup {
  std::string model{};  // a path; empty: the trained model of the tests
  AdapterSources adapters{};
  int32_t n_slots = 4;
  int64_t n_ctx = 1024;
  int64_t n_score_rows = 24;                 // rows of logits beside one for each slot
  std::optional<EmbeddingUse> embeddings{};  // also that of a model that generates no text
  int32_t n_cache_marks = 0;
  server::ServerOptions options{};
  server::ServedModelOptions served{};
};

class ApiTest : public ::testing::Test {
 protected:
  struct Answer {
    int status = 0;
    HttpReply reply{};
    ordered_json json{};
  };

  void start(ApiSetup setup = {}) {
    setup.options.http.port = 0;
    setup.options.api.build_info = "b1-test";
    ASSERT_OK_AND_ASSIGN(server_, server::Server::start(setup.options));
    if (setup.model.empty()) setup.model = story_model();
    ASSERT_OK_AND_ASSIGN(std::shared_ptr<Registry> registry, create_registry(""));
    ASSERT_OK_AND_ASSIGN(LoadedModel model, open_model(registry, {.path = setup.model, .adapters = setup.adapters}));
    SessionOptions session{.n_ctx = setup.n_ctx,
                           .n_sequences = setup.n_slots,
                           .n_outputs = setup.n_slots + setup.n_score_rows,
                           .n_cache_marks = setup.n_cache_marks};
    if (server::generates_text(model.engine->model().info())) {
      model.fit.embeddings = setup.embeddings;
    } else {
      session = embedding_session(*model.engine, *setup.embeddings, {.n_ctx = setup.n_ctx});
    }
    ASSERT_OK(load_session(model, session));
    if (setup.embeddings) setup.served.embeddings = *setup.embeddings;
    setup.served.path = setup.model;
    setup.served.scheduler.n_slots = setup.n_slots;
    ASSERT_OK(server_->serve(std::move(model), std::move(setup.served)));
  }

  HttpClient connect() const { return HttpClient::connect(server_->port()); }

  static Answer read(HttpClient& client) {
    Answer answer{.reply = client.read_answer()};
    answer.status = answer.reply.status;
    answer.json = ordered_json::parse(answer.reply.body, nullptr, false);
    return answer;
  }
  Answer get(const std::string& path, const std::string& fields = "") const {
    HttpClient client = connect();
    EXPECT_TRUE(client.get(path, fields));
    return read(client);
  }
  Answer post(const std::string& path, const std::string& body, const std::string& fields = "") const {
    HttpClient client = connect();
    EXPECT_TRUE(client.post(path, body, fields));
    return read(client);
  }
  Answer post_json(const std::string& path, const ordered_json& body) const { return post(path, body.dump()); }

  /// The data of each event of a stream, without [DONE].
  std::vector<ordered_json> stream(const std::string& path, ordered_json body, bool* is_done = nullptr) const {
    body["stream"] = true;
    HttpClient client = connect();
    EXPECT_TRUE(client.post(path, body.dump()));
    const HttpReply reply = client.read_answer();
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.field("content-type"), "text/event-stream");
    return events_of(reply.body, is_done);
  }
  static std::vector<ordered_json> events_of(const std::string& text, bool* is_done = nullptr) {
    std::vector<ordered_json> events;
    if (is_done != nullptr) *is_done = false;
    for (size_t begin = 0, end; begin < text.size(); begin = end + 2) {
      end = text.find("\n\n", begin);
      if (end == std::string::npos) break;
      const std::string event = text.substr(begin, end - begin);
      if (!event.starts_with("data: ")) continue;
      if (event == "data: [DONE]") {
        if (is_done != nullptr) *is_done = true;
        continue;
      }
      events.push_back(ordered_json::parse(event.substr(6), nullptr, false));
      EXPECT_FALSE(events.back().is_discarded()) << event;
    }
    return events;
  }

  /// Expects a refusal with a message that contains `part`.
  static void expect_refused(const Answer& answer, int status, const std::string& part) {
    EXPECT_EQ(answer.status, status) << answer.reply.body;
    ASSERT_TRUE(answer.json.is_object() && answer.json.contains("error")) << answer.reply.body;
    const std::string message = answer.json["error"]["message"];
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  void wait_until_idle() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!server_->is_idle() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(server_->is_idle());
  }

  std::unique_ptr<server::Server> server_;
};

}  // namespace tessera::testing
