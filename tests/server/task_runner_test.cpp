// A thread that computes tasks, as other threads see it. The test's thread computes nothing but waits.
#include "tessera/server/run/task_runner.h"

#include <atomic>

#include "tests/server/scheduler_support.h"
#include "tests/support/wait.h"

namespace tessera {
namespace {

using namespace testing;
using namespace server;

/// Computes all tasks that have come in one step, which ends when it is cancelled or when the test lets it go.
class WaitingRunner final : public TaskRunner {
 public:
  WaitingRunner(const QueueLimits& limits, ModelMetrics& metrics, const text::Tokenizer& tokenizer)
      : TaskRunner(limits, metrics, tokenizer) {
    EXPECT_OK(start_thread());
  }
  ~WaitingRunner() override { stop(); }
  void drain() override { mailbox().close(); }

  std::atomic<double> forecast_ms{1e9};
  std::atomic<bool> may_end{false};
  std::atomic<bool> had_cancels_before{false};  // of tasks that were cancelled before the thread knew them
  std::atomic<int> n_begun{0}, n_cancelled{0}, n_completed{0};

 private:
  void run() override {
    while (!is_stopping()) {
      const Mailbox::Mail mail = mailbox().take(std::nullopt);
      queue_tasks(mail.tasks, server::Clock::now());
      if (mail.tasks.empty()) continue;
      const bool had_cancels = take_cancels();
      const Result<> done = compute(mail.tasks, forecast_ms, [this](const CancelToken& cancel) -> Result<> {
        ++n_begun;
        while (!cancel.cancelled() && !may_end) std::this_thread::yield();
        if (cancel.cancelled()) return fail(ErrorCode::cancelled, "cancelled");
        return {};
      });
      static_cast<void>(take_cancels());
      had_cancels_before = had_cancels;
      ++(done ? n_completed : n_cancelled);
      for (const auto& task : mail.tasks) close_one(*task);
    }
  }
};

class Runners : public SchedulerTest {
 protected:
  void SetUp() override { metrics_ = std::make_unique<ModelMetrics>(); }
  std::shared_ptr<Task> submit_to(WaitingRunner& runner) {
    TaskSpec spec{.client = "c", .sequences = {}, .sink = std::make_shared<Collector>(1)};
    spec.sequences.push_back({.prompt = {1, 2, 3}, .chain = nullptr});
    auto task = runner.submit(std::move(spec));
    EXPECT_TRUE(task.has_value());
    return task.value_or(nullptr);
  }
};

TEST_F(Runners, AStepEndsWhenNobodyWantsIt) {
  WaitingRunner runner({}, *metrics_, engine_->tokenizer());
  EXPECT_TRUE(runner.is_idle());
  const auto task = submit_to(runner);
  EXPECT_FALSE(runner.is_idle());
  EXPECT_TRUE(wait_until([&] { return runner.n_begun == 1; }));
  EXPECT_EQ(runner.n_cancelled, 0);
  const auto other = submit_to(runner);
  runner.cancel(other);  // nothing is computed for it
  EXPECT_EQ(runner.n_cancelled, 0);
  runner.cancel(task);
  EXPECT_TRUE(wait_until([&] { return runner.n_cancelled == 2; })) << "the other one was cancelled before";
  EXPECT_TRUE(runner.had_cancels_before);
  EXPECT_TRUE(wait_until([&] { return runner.is_idle(); }));
}

TEST_F(Runners, AStepGoesOnIfAnotherTaskWantsIt) {
  WaitingRunner runner({}, *metrics_, engine_->tokenizer());
  const auto first = submit_to(runner);
  EXPECT_TRUE(wait_until([&] { return runner.n_begun == 1; }));
  const auto second = submit_to(runner), third = submit_to(runner);  // they share the next step
  runner.cancel(first);
  EXPECT_TRUE(wait_until([&] { return runner.n_begun == 2; }));
  runner.cancel(second);
  EXPECT_EQ(runner.n_cancelled, 1);
  runner.may_end = true;
  EXPECT_TRUE(wait_until([&] { return runner.n_completed == 1; }));
  EXPECT_EQ(runner.n_cancelled, 1);
}

TEST_F(Runners, StoppingEndsAStep) {
  WaitingRunner runner({}, *metrics_, engine_->tokenizer());
  submit_to(runner);
  EXPECT_TRUE(wait_until([&] { return runner.n_begun == 1; }));
  runner.stop_all();
  EXPECT_TRUE(wait_until([&] { return runner.n_cancelled == 1; }));
  submit_to(runner);
  EXPECT_TRUE(wait_until([&] { return runner.n_cancelled == 2; })) << "later steps end at once";
}

TEST_F(Runners, AStepIsOverdueAfterItsForecast) {
  WaitingRunner runner({}, *metrics_, engine_->tokenizer());
  EXPECT_EQ(runner.overdue_ms(), 0);
  submit_to(runner);
  EXPECT_TRUE(wait_until([&] { return runner.n_begun == 1; }));
  EXPECT_EQ(runner.overdue_ms(), 0) << "the forecast is long";
  runner.forecast_ms = -1000;
  runner.may_end = true;
  EXPECT_TRUE(wait_until([&] { return runner.n_completed == 1; }));
  runner.may_end = false;
  submit_to(runner);
  EXPECT_TRUE(wait_until([&] { return runner.n_begun == 2; }));
  EXPECT_GE(runner.overdue_ms(), 1000);
  EXPECT_LT(runner.overdue_ms(), 1e6);
  runner.may_end = true;
  EXPECT_TRUE(wait_until([&] { return runner.n_completed == 2; }));
  EXPECT_EQ(runner.overdue_ms(), 0);
}

TEST_F(Runners, RefusalsAreCounted) {
  WaitingRunner runner({.n_tasks = 2, .n_client_tasks = 1}, *metrics_, engine_->tokenizer());
  const auto mine = runner.reserve("me");
  EXPECT_TRUE(mine.has_value());
  EXPECT_FALSE(runner.reserve("me").has_value());
  EXPECT_EQ(metrics_->refused_client, 1u);
  const auto other = runner.reserve("you");
  EXPECT_TRUE(other.has_value());
  EXPECT_FALSE(runner.reserve("they").has_value());
  EXPECT_EQ(metrics_->refused_full, 1u);
  EXPECT_TRUE(runner.is_idle());
}

}  // namespace
}  // namespace tessera
