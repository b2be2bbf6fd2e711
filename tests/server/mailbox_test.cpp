// The mailbox of a scheduler by itself: the limits of its queue, places, and the time after which a client may ask
// again.
#include "tessera/server/run/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace tessera::server {
namespace {

using std::chrono::seconds;

std::shared_ptr<Task> task_of(const std::string& client, size_t n_tokens) {
  TaskSpec spec{.client = client, .sequences = {}, .sink = nullptr};
  SequenceSpec sequence;
  sequence.prompt.resize(n_tokens);
  spec.sequences.push_back(std::move(sequence));
  return std::make_shared<Task>(1, std::move(spec));
}

std::string refusal_of(const std::optional<Refusal>& refusal, bool is_clients_own = false) {
  EXPECT_TRUE(refusal);
  if (!refusal) return "";
  EXPECT_EQ(refusal->is_clients_own, is_clients_own);
  return refusal->message;
}

TEST(Mailbox, TakesSoManyTasks) {
  Mailbox mailbox({.n_tasks = 3});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(mailbox.submit(task_of("a", 10)));
  EXPECT_EQ(mailbox.n_waiting(), 3);
  EXPECT_EQ(mailbox.n_waiting_tokens(), 30);
  EXPECT_EQ(refusal_of(mailbox.submit(task_of("b", 1))), "The queue is full: 3 requests wait");
  EXPECT_EQ(refusal_of(mailbox.reserve("b").error()), "The queue is full: 3 requests wait");
  const auto mail = mailbox.take_now();
  ASSERT_EQ(mail.tasks.size(), 3u);
  EXPECT_TRUE(mailbox.submit(task_of("b", 1)));  // those that were taken wait until they leave
  mailbox.leave(*mail.tasks[0], Clock::now());
  EXPECT_EQ(mailbox.n_waiting(), 2);
  EXPECT_EQ(mailbox.n_waiting_tokens(), 20);
  EXPECT_FALSE(mailbox.submit(task_of("b", 1)));
}

TEST(Mailbox, TakesSoManyTokensOrOneTask) {
  Mailbox mailbox({.n_tokens = 100});
  EXPECT_FALSE(mailbox.submit(task_of("a", 60)));
  EXPECT_FALSE(mailbox.submit(task_of("a", 40)));
  EXPECT_EQ(refusal_of(mailbox.submit(task_of("a", 1))),
            "The queue is full: the waiting prompts have 100 tokens, limit 100");
  Mailbox other({.n_tokens = 100});
  EXPECT_FALSE(other.submit(task_of("a", 1000)));  // alone
  EXPECT_NE(refusal_of(other.submit(task_of("a", 1))), "");
}

TEST(Mailbox, AClientHasItsOwnLimit) {
  Mailbox mailbox({.n_client_tasks = 2});
  const auto first = task_of("a", 1);
  EXPECT_FALSE(mailbox.submit(first));
  EXPECT_FALSE(mailbox.submit(task_of("a", 1)));
  EXPECT_EQ(refusal_of(mailbox.submit(task_of("a", 1)), true), "Too many requests of this client wait: 2");
  EXPECT_FALSE(mailbox.submit(task_of("b", 1)));
  mailbox.leave(*first, Clock::now());
  EXPECT_FALSE(mailbox.submit(task_of("a", 1)));
  EXPECT_EQ(refusal_of(mailbox.submit(task_of("a", 1)), true), "Too many requests of this client wait: 2");
}

TEST(Mailbox, APlaceIsGivenBack) {
  Mailbox mailbox({.n_tasks = 1});
  {
    const auto place = mailbox.reserve("a");
    ASSERT_TRUE(place);
    EXPECT_EQ(mailbox.n_waiting(), 1);
    EXPECT_FALSE(mailbox.reserve("b"));
  }
  EXPECT_EQ(mailbox.n_waiting(), 0);
  EXPECT_TRUE(mailbox.reserve("b"));
}

TEST(Mailbox, ClosesForTasksOnly) {
  Mailbox mailbox({});
  mailbox.close();
  EXPECT_NE(refusal_of(mailbox.submit(task_of("a", 1))), "");
  EXPECT_FALSE(mailbox.reserve("a"));
  int n_called = 0;
  mailbox.post([&] { ++n_called; });
  for (const auto& command : mailbox.take_now().commands) command();
  EXPECT_EQ(n_called, 1);
}

// Half of the queue leaves in that time.
TEST(Mailbox, TellsWhenToAskAgain) {
  Mailbox mailbox({.n_tasks = 4});
  Clock::time_point now{seconds(1000)};
  const auto seconds_told = [&] {
    std::vector<std::shared_ptr<Task>> tasks;
    while (mailbox.n_waiting() < 4) {
      tasks.push_back(task_of("a", 1));
      EXPECT_FALSE(mailbox.submit(tasks.back()));
    }
    return mailbox.submit(task_of("a", 1))->retry_after_s;
  };
  EXPECT_EQ(seconds_told(), 1);
  std::vector<std::shared_ptr<Task>> tasks = mailbox.take_now().tasks;
  mailbox.leave(*tasks[0], now);
  EXPECT_EQ(seconds_told(), 1);
  mailbox.leave(*tasks[1], now + seconds(200));  // 5 % of 200 seconds, and 95 % of 0.1
  EXPECT_EQ(seconds_told(), 20);
  mailbox.leave(*tasks[2], now + seconds(10'000));
  EXPECT_EQ(seconds_told(), 60);  // no more
}

TEST(Mailbox, WaitsForMail) {
  Mailbox mailbox({});
  EXPECT_TRUE(mailbox.take(Clock::now()).tasks.empty());
  for (int kind = 0; kind < 3; ++kind) {
    std::thread sender([&] {
      if (kind == 0) mailbox.wake();
      if (kind == 1) mailbox.post([] {});
      if (kind == 2) {
        EXPECT_FALSE(mailbox.submit(task_of("a", 1)));
      }
    });
    const auto mail = mailbox.take(std::nullopt);
    EXPECT_EQ(mail.commands.size(), kind == 1 ? 1u : 0u);
    EXPECT_EQ(mail.tasks.size(), kind == 2 ? 1u : 0u);
    sender.join();
  }
  mailbox.wake();
  mailbox.take_now();
  EXPECT_TRUE(mailbox.take(Clock::now()).tasks.empty());  // it was woken once
}

}  // namespace
}  // namespace tessera::server
