// The way of a request to a worker, with the lease and the place that it took before.
#include <gtest/gtest.h>

#include <future>

#include "tessera/server/api/live_streams.h"
#include "tessera/server/api/route_adder.h"
#include "tests/server/api_support.h"

namespace tessera {
namespace {

using namespace testing;
using server::ApiContext;
using server::Exchange;
using server::FieldResult;
using server::HttpAnswer;
using server::ModelRegistry;
using server::ServedModel;

/// A request without a connection. It keeps the status of its answer.
class LonelyExchange final : public Exchange {
 public:
  explicit LonelyExchange(server::HttpRequest request) : Exchange(std::move(request)) {}
  void answer(HttpAnswer answer) override { status = answer.status; }
  void begin_stream(HttpAnswer) override {}
  void write(std::string) override {}
  void end_stream() override {}
  void abort() override {}
  size_t n_unsent() const override { return 0; }
  int64_t stalled_ms() const override { return 0; }
  void on_drained(std::function<void()>) override {}
  std::shared_ptr<server::ByteBudget> held_budget() const override { return nullptr; }
  void on_gone(std::function<void()>) override {}
  void post(std::function<void()> task) override { task(); }
  size_t io_thread() const override { return 0; }

  int status = 0;
};

/// Routes of a server with one model and one worker, which a test can keep busy.
class OneWorker : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(workers_, server::Workers::create(1));
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Registry> registry, create_registry(""));
    ASSERT_OK_AND_ASSIGN(LoadedModel loaded, open_model(registry, {.path = story_model()}));
    map_ = loaded.engine->files().files()[0]->map()->bytes().data();
    ASSERT_OK(load_session(loaded, {.n_ctx = 64, .n_sequences = 1, .n_outputs = 1}));
    ASSERT_OK(models_.serve(std::move(loaded), {.path = story_model(), .scheduler = {.n_slots = 1}}));
    context_ = std::make_unique<ApiContext>(server::ApiOptions{}, models_, *workers_, streams_, kept_streams_);
    server::RouteAdder(router_, *context_)
        .add_task({"/task"}, server::TaskKind::generation,
                  [this](ServedModel& model, const std::shared_ptr<Exchange>& exchange) -> FieldResult<> {
                    served_ = &model;
                    had_place_ = exchange->has_place();
                    exchange->answer({});
                    return {};
                  });
  }
  void TearDown() override {
    models_.drain();
    workers_->stop();
  }

  std::shared_ptr<LonelyExchange> send(const std::string& path) {
    auto exchange = std::make_shared<LonelyExchange>(server::HttpRequest{.method = "POST", .path = path});
    router_.find("POST", path).route->handler(exchange);
    return exchange;
  }

  server::KeptStreams kept_streams_{{}};
  server::LiveStreams streams_;
  ModelRegistry models_{[](size_t, std::function<void()> task) { task(); }};
  std::unique_ptr<server::Workers> workers_;
  std::unique_ptr<ApiContext> context_;
  server::Router router_;
  const void* map_ = nullptr;
  ServedModel* served_ = nullptr;
  bool had_place_ = false;
};

// The model is to be unloaded after the request took its place, and before a worker takes the request. The model waits
// for the end of the request's lease, so the request cannot wait for the model.
TEST_F(OneWorker, ARequestKeepsTheModelOfItsPlace) {
  std::promise<void> go_on;
  workers_->post([&] { go_on.get_future().wait(); });
  const auto exchange = send("/task");
  EXPECT_TRUE(exchange->has_place());
  EXPECT_TRUE(replace_lost_map(map_));
  models_.tick();
  EXPECT_FALSE(models_.find_loaded(""));
  go_on.set_value();
  workers_->stop();
  EXPECT_EQ(exchange->status, 200);
  EXPECT_EQ(static_cast<void*>(served_), exchange->held().get());
  EXPECT_TRUE(had_place_);
  EXPECT_FALSE(exchange->has_place());  // no task took it
}

}  // namespace
}  // namespace tessera
