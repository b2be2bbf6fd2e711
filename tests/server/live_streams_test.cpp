// Streams that are open, and the events of models, without connections.
#include "tessera/server/api/live_streams.h"

#include <gtest/gtest.h>

#include "tessera/server/api/model_events.h"

namespace tessera::server {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;
using std::chrono::seconds;

/// Notes all that it is told.
class NotingExchange final : public Exchange {
 public:
  NotingExchange() : Exchange({}) {}
  void answer(HttpAnswer) override {}
  void begin_stream(HttpAnswer head) override { type = head.content_type; }
  void write(std::string piece) override { text += piece; }
  void end_stream() override { ++n_ends; }
  void abort() override {
    ++n_aborts;
    leave();
  }
  size_t n_unsent() const override { return unsent; }
  int64_t stalled_ms() const override { return 0; }
  void on_drained(std::function<void()>) override {}
  std::shared_ptr<ByteBudget> held_budget() const override { return nullptr; }
  void on_gone(std::function<void()>) override {}
  void post(std::function<void()> task) override {
    ++n_posts;
    task();
  }
  size_t io_thread() const override { return 0; }
  void leave() { gone_ = true; }

  std::string type{}, text{};
  int n_ends = 0, n_aborts = 0, n_posts = 0;
  size_t unsent = 0;
};

class NamedStream final : public LiveStream {
 public:
  explicit NamedStream(std::string name) : name_(std::move(name)) {}
  void ping(TimePoint) override { ++n_pings; }
  Exchange& exchange() override { return exchange_; }
  std::string_view id() const override { return name_; }

  int n_pings = 0;
  NotingExchange exchange_{};

 private:
  std::string name_;
};

TEST(LiveStreams, AreFoundAndPingedWhileTheyLast) {
  LiveStreams streams;
  auto a = std::make_shared<NamedStream>("a"), b = std::make_shared<NamedStream>("b");
  streams.add(a);
  streams.add(b);
  EXPECT_EQ(streams.find("a"), a);
  EXPECT_EQ(streams.find("b"), b);
  EXPECT_EQ(streams.find("c"), nullptr);
  streams.tick();
  EXPECT_EQ(a->n_pings, 1);
  a->exchange_.leave();
  EXPECT_EQ(streams.find("a"), nullptr);
  streams.tick();
  EXPECT_EQ(a->n_pings, 1);
  EXPECT_EQ(b->n_pings, 2);
  b.reset();
  EXPECT_EQ(streams.find("b"), nullptr);
  streams.tick();
}

class EventsOfModels : public ::testing::Test {
 protected:
  std::shared_ptr<NotingExchange> subscribe() {
    auto exchange = std::make_shared<NotingExchange>();
    events.subscribe(exchange);
    return exchange;
  }
  static ModelView view(const std::string& name, const std::string& failure = "") {
    ModelView view;
    view.entry.name = name;
    view.failure = failure;
    return view;
  }

  LiveStreams streams;
  ModelEvents events{streams};
};

TEST_F(EventsOfModels, GoToAllStreams) {
  const auto one = subscribe(), two = subscribe();
  EXPECT_EQ(one->type, "text/event-stream");
  events.send(view("m"));
  EXPECT_TRUE(one->text.starts_with(R"(data: {"model":"m","event":"model_status","data":{"status":"unloaded",)"));
  EXPECT_TRUE(one->text.ends_with("}}\n\n"));
  EXPECT_EQ(one->text.find("failed"), std::string::npos);
  EXPECT_EQ(two->text, one->text);
  events.send(view("m", "no memory"));
  EXPECT_NE(one->text.find(R"("failed":true,"error":"no memory")"), std::string::npos);
  events.close();
  EXPECT_EQ(one->n_ends, 1);
  EXPECT_EQ(two->n_ends, 1);
  EXPECT_EQ(subscribe()->n_ends, 1) << "no stream begins later";
}

TEST_F(EventsOfModels, DoNotGoToClientsThatDoNotRead) {
  const auto one = subscribe(), two = subscribe();
  one->unsent = size_t{256} << 10;
  two->unsent = one->unsent + 1;
  events.send(view("m"));
  EXPECT_EQ(one->n_aborts, 0);
  EXPECT_NE(one->text, "");
  EXPECT_EQ(two->n_aborts, 1);
  EXPECT_EQ(two->text, "");
  two->unsent = 0;
  events.send(view("m"));
  EXPECT_EQ(two->text, "") << "it has no stream any more";
  const auto gone = subscribe();
  gone->leave();
  events.send(view("m"));
  EXPECT_EQ(gone->text, "");
}

TEST_F(EventsOfModels, AreFollowedByACommentEveryFifteenSeconds) {
  const TimePoint before = std::chrono::steady_clock::now();
  const auto one = subscribe();
  const TimePoint after = std::chrono::steady_clock::now();
  const auto stream = streams.find("");
  ASSERT_NE(stream, nullptr);
  stream->ping(before + seconds(14));
  EXPECT_EQ(one->text, "");
  stream->ping(after + seconds(15));
  EXPECT_EQ(one->text, ":\n\n");
  stream->ping(after + seconds(29));
  EXPECT_EQ(one->text, ":\n\n");
  stream->ping(after + seconds(30));
  EXPECT_EQ(one->text, ":\n\n:\n\n");
  events.close();
  stream->ping(after + seconds(90));
  EXPECT_EQ(one->text, ":\n\n:\n\n") << "the stream has ended";
}

}  // namespace
}  // namespace tessera::server
