// The parts of the scheduler by themselves: stop strings, the queue, the forecast of step times, the outbox.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/server/metrics.h"
#include "tessera/server/run/fair_queue.h"
#include "tessera/server/run/outbox.h"
#include "tessera/server/run/step_forecast.h"
#include "tessera/server/run/stop_text.h"

namespace tessera::server {
namespace {

// --- stop strings

TEST(StopText, EndsAtTheFirstStopString) {
  StopText text({"END", "stop"});
  EXPECT_EQ(text.push("a st"), "a ");  // it may become "stop"
  EXPECT_TRUE(text.is_holding());
  EXPECT_EQ(text.push("a"), "sta");
  EXPECT_EQ(text.push("r EN"), "r ");
  EXPECT_EQ(text.push("D stop"), "");
  EXPECT_TRUE(text.is_stopped());
  EXPECT_EQ(text.stopping_word(), "END");
  EXPECT_EQ(text.push("more"), "");
}

TEST(StopText, AnyCutOfTheTextGivesTheSame) {
  const std::string whole = "aab aabaac\xC3\xA9 aabaab tail";
  for (size_t step = 1; step < whole.size(); ++step) {
    StopText text({"aabaab", "aabb"});
    std::string out;
    for (size_t i = 0; i < whole.size(); i += step) out += text.push(std::string_view(whole).substr(i, step));
    out += text.finish();
    EXPECT_EQ(out, "aab aabaac\xC3\xA9 ") << step;
    EXPECT_EQ(text.stopping_word(), "aabaab");
  }
}

TEST(StopText, TheLongestOfStringsAtOnePlaceCounts) {
  StopText text({"ab", "abc"});
  EXPECT_EQ(text.push("xabc"), "x");
  EXPECT_EQ(text.stopping_word(), "abc");
}

TEST(StopText, CodePointsAreWholeAndBadBytesReplaced) {
  StopText text({});
  EXPECT_EQ(text.push("\xE2\x82"), "");
  EXPECT_EQ(text.push("\xAC"), "\xE2\x82\xAC");
  EXPECT_EQ(text.push("\xFFz"), "\xEF\xBF\xBDz");
  EXPECT_EQ(text.push("\xE2"), "");
  EXPECT_EQ(text.finish(), "\xEF\xBF\xBD");
}

// --- the queue

class Queue : public ::testing::Test {
 protected:
  void push(const std::string& client, int64_t n_tokens = 10, int priority = 0, int64_t waited_s = 0) {
    queue_.push({.sequence = nullptr,
                 .client = client,
                 .priority = priority,
                 .n_tokens = n_tokens,
                 .since = now_ - std::chrono::seconds(waited_s)});
  }
  std::string take() {
    const auto* next = queue_.next(now_, [](const auto&) { return true; });
    if (next == nullptr) return "";
    const FairQueue::Waiting waiting = queue_.take(next);
    return waiting.client + std::to_string(waiting.n_tokens);
  }

  FairQueue queue_;
  Clock::time_point now_ = Clock::now();
};

TEST_F(Queue, TheClientWithTheLeastWorkComesFirst) {
  push("a", 1);
  push("a", 2);
  push("b", 3);
  queue_.charge("a", 100);
  EXPECT_EQ(take(), "b3");
  EXPECT_EQ(take(), "a1");
  EXPECT_EQ(take(), "a2");
  EXPECT_EQ(take(), "");
}

TEST_F(Queue, PrioritiesComeBeforeCounters) {
  push("a", 1);
  push("b", 2, -1);
  queue_.charge("b", 1000);
  EXPECT_EQ(take(), "b2");
}

TEST_F(Queue, WaitingMakesMoreUrgent) {
  push("a", 1, -1);
  push("b", 2, 0, 61);
  EXPECT_EQ(take(), "b2");
}

TEST_F(Queue, AClientThatComesBackHasNoCredit) {
  push("a", 1);
  queue_.charge("a", 500);
  push("b", 2);
  EXPECT_EQ(queue_.counter("b"), 500);
  queue_.charge("b", 600);
  take(), take();
  queue_.end("a");
  push("a", 3);
  EXPECT_EQ(queue_.counter("a"), 1100);  // b is still running
}

TEST_F(Queue, ShortPromptsPassLongOnesOfTheirClientAFewTimes) {
  push("a", 5000);
  for (int i = 0; i < FairQueue::kMostPasses; ++i) push("a", 10 + i);
  push("a", 100);
  for (int i = 0; i < FairQueue::kMostPasses; ++i) EXPECT_EQ(take(), "a" + std::to_string(10 + i));
  EXPECT_EQ(take(), "a5000");
  EXPECT_EQ(take(), "a100");
}

TEST_F(Queue, ASequenceThatLostItsSlotComesFirst) {
  push("a", 1);
  queue_.push({.sequence = nullptr, .client = "b", .n_tokens = 2, .since = now_, .is_first = true});
  queue_.charge("b", 100);
  EXPECT_EQ(take(), "b2");
}

TEST_F(Queue, RefusedEntriesAreSkippedAndDropped) {
  push("a", 1);
  push("b", 2);
  const auto* next = queue_.next(now_, [](const auto& one) { return one.client == "b"; });
  EXPECT_EQ(next->client, "b");
  EXPECT_EQ(queue_.drop_if([](const auto& one) { return one.client == "a"; }).size(), 1u);
  EXPECT_EQ(queue_.size(), 1u);
}

TEST_F(Queue, ALongPromptIsPassedOnlyByShortOnesOfItsAge) {
  push("a", 5000, 0, 31);
  push("a", 10);
  EXPECT_EQ(take(), "a5000");
  EXPECT_EQ(take(), "a10");
}

TEST_F(Queue, ASkippedEntryIsNotPassed) {
  push("a", 5000);
  push("a", 6000);
  push("a", 10);
  const auto* next = queue_.next(now_, [](const auto& one) { return one.n_tokens != 5000; });
  EXPECT_EQ(next->n_tokens, 10);
  next = queue_.next(now_, [](const auto& one) { return one.n_tokens >= 5000; });
  EXPECT_EQ(next->n_tokens, 5000);
  next = queue_.next(now_, [](const auto& one) { return one.n_tokens == 6000; });
  EXPECT_EQ(next->n_tokens, 6000);
  EXPECT_EQ(queue_.next(now_, [](const auto&) { return false; }), nullptr);
}

TEST_F(Queue, AGroupBecomesMoreUrgentWhileOthersComeAndGo) {
  push("old", 1, 1);
  EXPECT_EQ(take(), "old1");
  push("old", 2, 1);
  for (int i = 0; i < 3; ++i) {
    now_ += std::chrono::milliseconds(FairQueue::kAgeStepMs) - std::chrono::milliseconds(1);
    push("new", 10 + i);
    queue_.charge("old", 1);
    EXPECT_EQ(take(), i < 2 ? "new" + std::to_string(10 + i) : "old2") << i;
  }
}

TEST_F(Queue, DeadlinesAreKnown) {
  using std::chrono::seconds;
  EXPECT_FALSE(queue_.has_deadline_before(now_ + seconds(1000)));
  for (const int s : {20, 10, 30}) queue_.push({.sequence = nullptr, .client = "a", .deadline = now_ + seconds(s)});
  EXPECT_FALSE(queue_.has_deadline_before(now_ + seconds(9)));
  EXPECT_TRUE(queue_.has_deadline_before(now_ + seconds(10)));
  EXPECT_EQ(queue_.drop_if([&](const auto& one) { return one.deadline <= now_ + seconds(10); }).size(), 1u);
  EXPECT_FALSE(queue_.has_deadline_before(now_ + seconds(19)));
  EXPECT_TRUE(queue_.has_deadline_before(now_ + seconds(20)));
}

TEST_F(Queue, BetterPrioritiesAreKnown) {
  EXPECT_FALSE(queue_.has_better_than(10));
  push("a", 1, 3);
  push("a", 2, -10);
  EXPECT_FALSE(queue_.has_better_than(-10));
  EXPECT_TRUE(queue_.has_better_than(-9));
  take();
  EXPECT_FALSE(queue_.has_better_than(3));
  EXPECT_TRUE(queue_.has_better_than(4));
  take();
  EXPECT_FALSE(queue_.has_better_than(10));
}

TEST_F(Queue, ManyIdleClientsAreForgotten) {
  push("active");
  queue_.charge("active", 3);
  const auto come_and_go = [&](size_t i) {
    const std::string client = "c" + std::to_string(i);
    queue_.push({.sequence = nullptr, .client = client, .priority = -1, .since = now_});
    take();
    queue_.charge(client, 7);
    queue_.end(client);
  };
  for (size_t i = 0; i < FairQueue::kMostIdleClients; ++i) come_and_go(i);
  EXPECT_GT(queue_.counter("c0"), 0);
  come_and_go(FairQueue::kMostIdleClients);
  EXPECT_GT(queue_.counter("c0"), 0);
  come_and_go(FairQueue::kMostIdleClients + 1);
  EXPECT_EQ(queue_.counter("c0"), 0);
  EXPECT_EQ(queue_.counter("active"), 3);
  EXPECT_EQ(take(), "active10");
}

// The rules of the queue, applied to a list without any structure.
class SlowQueue {
 public:
  struct Entry {
    std::string client;
    int priority = 0;
    int64_t n_tokens = 0;
    Clock::time_point since{};
    bool is_first = false;
    uint64_t arrival = 0;
    int n_passed = 0;
  };
  std::vector<Entry> entries;
  std::map<std::string, double> counters;

  static int64_t effective(const Entry& e, Clock::time_point now) {
    return e.priority - (now - e.since) / std::chrono::milliseconds(FairQueue::kAgeStepMs);
  }
  bool same_group(const Entry& a, const Entry& b) const {
    return a.client == b.client && a.priority == b.priority && a.is_first == b.is_first;
  }
  /// Removes the next entry and returns its arrival.
  uint64_t take(Clock::time_point now) {
    const auto key = [&](const Entry& e) {
      return std::tuple(effective(e, now), !e.is_first, counters[e.client], e.arrival);
    };
    const auto best = std::ranges::min_element(entries, {}, key);
    auto chosen = best;
    if (best->n_tokens > FairQueue::kShortPrompt && best->n_passed < FairQueue::kMostPasses) {
      for (auto it = entries.begin(); it != entries.end(); ++it)
        if (same_group(*it, *best) && it->n_tokens <= FairQueue::kShortPrompt &&
            effective(*it, now) == effective(*best, now) && (chosen == best || it->arrival < chosen->arrival))
          chosen = it;
    }
    for (Entry& e : entries)
      if (same_group(e, *chosen) && e.arrival < chosen->arrival && e.n_tokens > FairQueue::kShortPrompt) ++e.n_passed;
    const uint64_t arrival = chosen->arrival;
    entries.erase(chosen);
    return arrival;
  }
};

TEST_F(Queue, TheOrderIsThatOfASearchThroughAll) {
  Rng rng(7);
  SlowQueue slow;
  const auto pick = [&](uint32_t n) { return static_cast<int64_t>(rng.next_u32() % n); };
  for (uint64_t arrival = 1; arrival <= 3000; ++arrival) {
    const std::string client(1, static_cast<char>('a' + pick(6)));
    const bool is_first = pick(8) == 0;
    const int priority = static_cast<int>(pick(3)) - 1;
    const int64_t n_tokens = pick(2) == 0 ? 1000 : 10;
    queue_.push({.sequence = nullptr,
                 .client = client,
                 .priority = priority,
                 .n_tokens = n_tokens,
                 .since = now_,
                 .is_first = is_first,
                 .arrival = arrival});
    slow.entries.push_back({client, priority, n_tokens, now_, is_first, arrival});
    slow.counters[client] = queue_.counter(client);
    const double cost = static_cast<double>(pick(100));
    queue_.charge(client, cost);
    slow.counters[client] += cost;
    now_ += std::chrono::seconds(pick(4));
    if (pick(3) == 0) continue;
    const auto* next = queue_.next(now_, [](const auto&) { return true; });
    ASSERT_NE(next, nullptr);
    ASSERT_EQ(next->arrival, slow.take(now_)) << arrival;
    queue_.end(queue_.take(next).client);
  }
}

// --- the forecast

double true_ms(const StepWork& work) {
  return 2 + 0.05 * static_cast<double>(work.n_prefill) + 1e-5 * work.n_pairs +
         0.4 * static_cast<double>(work.n_decoding);
}

StepForecast learnt() {
  StepForecast forecast(10);  // a bad guess
  uint32_t random = 1;
  const auto below = [&](uint32_t n) {
    random = random * 1664525 + 1013904223;
    return static_cast<int64_t>((random >> 8) % n);
  };
  for (int i = 0; i < 400; ++i) {
    StepWork work{.n_prefill = 16 * below(32), .n_pairs = 0, .n_decoding = below(16)};
    work.n_pairs = static_cast<double>(work.n_prefill + work.n_decoding) * static_cast<double>(below(8000));
    forecast.learn(work, true_ms(work));
  }
  return forecast;
}

TEST(StepForecast, LearnsTheRatesOfTheMachine) {
  const StepForecast forecast = learnt();
  for (const StepWork& work : {StepWork{256, 1e6, 4}, StepWork{0, 3e4, 8}, StepWork{512, 2e6, 0}})
    EXPECT_NEAR(forecast.ms(work), true_ms(work), 0.02 * true_ms(work));  // forgetting keeps some of the first guess
}

TEST(StepForecast, TheBudgetMeetsTheTarget) {
  const StepForecast forecast = learnt();
  const StepWork decoding{.n_prefill = 0, .n_pairs = 1000, .n_decoding = 4};
  const int64_t budget = forecast.prefill_budget(decoding, 1000, 512, 20);
  EXPECT_GT(budget, 100);
  EXPECT_LT(budget, 512);
  const auto with = [&](int64_t n) {
    StepWork work = decoding;
    work.n_prefill = n;
    work.n_pairs += static_cast<double>(n) * (1000 + static_cast<double>(n) / 2);
    return forecast.ms(work);
  };
  EXPECT_LE(with(budget), 20);
  EXPECT_GT(with(budget + 1), 20);
  EXPECT_EQ(forecast.prefill_budget(decoding, 1000, 512, 0), StepForecast::kLeastPrefill);
  EXPECT_EQ(forecast.prefill_budget(decoding, 1000, 5, 0), 5);
  EXPECT_EQ(forecast.prefill_budget(decoding, 1000, 64, 1e9), 64);
}

// The first prompt is much faster than the guess, and the steps after it compute one token each.
TEST(StepForecast, PromptsAreNeverFree) {
  StepForecast forecast(1);
  forecast.learn({.n_prefill = 10, .n_pairs = 50, .n_decoding = 0}, 0.5);
  for (int i = 0; i < 3; ++i) {
    const StepWork decoding{.n_prefill = 0, .n_pairs = 12.0 + i, .n_decoding = 1};
    EXPECT_GE(forecast.ms(decoding), 0);
    EXPECT_EQ(forecast.prefill_budget(decoding, 0, 512, 1e-6), StepForecast::kLeastPrefill);
    forecast.learn(decoding, 0.1);
  }
}

// Other processes make some steps take long. A forecast that learnt from such steps can have only negative rates.
TEST(StepForecast, PromptsAreNeverFreeAfterDisturbedSteps) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    const auto step_ms = [&] {
      return rng.next_u32() % 6 == 0 ? rng.next_float(1.0f, 20.0f) : rng.next_float(0.05f, 0.2f);
    };
    StepForecast forecast(1);
    StepWork prompt;
    prompt.add_prefill(0, 10);
    forecast.learn(prompt, step_ms());
    const int n_before = 2 + static_cast<int>(rng.next_u32() % 6);  // steps before a second prompt
    for (int i = 0; i < n_before + 24; ++i) {
      StepWork work{.n_prefill = 0, .n_pairs = 12.0 + i, .n_decoding = 1};
      if (i >= n_before) {
        const int64_t position = (i - n_before) * StepForecast::kLeastPrefill;
        ASSERT_EQ(forecast.prefill_budget(work, position, 400 - position, 1e-6), StepForecast::kLeastPrefill) << seed;
        work.add_prefill(position, StepForecast::kLeastPrefill);
      }
      forecast.learn(work, step_ms());
    }
  }
}

TEST(StepForecast, OnePauseOfTheProcessChangesLittle) {
  StepForecast forecast = learnt();
  const StepWork work{.n_prefill = 128, .n_pairs = 1e5, .n_decoding = 4};
  forecast.learn(work, 60'000);
  EXPECT_LT(forecast.ms(work), 4 * true_ms(work));
}

TEST(StepForecast, EqualStepsForALongTimeKeepItStable) {
  StepForecast forecast = learnt();
  const StepWork work{.n_prefill = 0, .n_pairs = 100, .n_decoding = 1};
  for (int i = 0; i < 100'000; ++i) forecast.learn(work, true_ms(work));
  EXPECT_NEAR(forecast.ms(work), true_ms(work), 0.01 * true_ms(work));
  const StepWork other{.n_prefill = 128, .n_pairs = 1e5, .n_decoding = 4};
  EXPECT_GT(forecast.ms(other), 0);
  EXPECT_LT(forecast.ms(other), 100 * true_ms(other));
}

// --- the events of a step

class CountingSink final : public TaskSink {
 public:
  void on_event(TaskEvent&) override { ++n_events; }
  void flush() override { ++n_flushes; }
  size_t n_unsent() const override { return 0; }
  int64_t stalled_ms() const override { return 0; }

  int n_events = 0, n_flushes = 0;
};

TEST(Outbox, FlushesASinkOnceForTheEventsOfItsTask) {
  std::vector<size_t> io_threads;
  Outbox outbox([&](size_t io_thread, const std::function<void()>& task) {
    io_threads.push_back(io_thread);
    task();
  });
  std::vector<std::shared_ptr<CountingSink>> sinks;
  std::vector<std::shared_ptr<Task>> tasks;
  for (const size_t io_thread : {0, 0, 2}) {
    sinks.push_back(std::make_shared<CountingSink>());
    TaskSpec spec;
    spec.sink = sinks.back();
    spec.io_thread = io_thread;
    tasks.push_back(std::make_shared<Task>(tasks.size(), std::move(spec)));
  }
  for (const size_t task : {0, 2, 0, 0, 1}) outbox.add(tasks[task], {});
  outbox.post();
  outbox.post();  // nothing
  EXPECT_EQ(io_threads, (std::vector<size_t>{0, 2}));
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->n_events, i == 0 ? 3 : 1) << i;
    EXPECT_EQ(sinks[i]->n_flushes, 1) << i;
  }
}

// --- metrics

TEST(Histogram, CountsAreCumulative) {
  Histogram histogram(1, 2, 8);
  for (const double value : {0.5, 1.0, 3.0, 100.0}) histogram.observe(value);
  std::string out;
  histogram.write(out, "x", "a=\"b\"");
  EXPECT_EQ(
      out,
      "x_bucket{a=\"b\",le=\"1\"} 2\nx_bucket{a=\"b\",le=\"2\"} 2\nx_bucket{a=\"b\",le=\"4\"} 3\n"
      "x_bucket{a=\"b\",le=\"8\"} 3\nx_bucket{a=\"b\",le=\"+Inf\"} 4\nx_sum{a=\"b\"} 104.5\nx_count{a=\"b\"} 4\n");
}

}  // namespace
}  // namespace tessera::server
