// The scheduler: the tokens of sequences that run together, sharing, cancellation, limits, fairness and ends.
#include "tessera/server/run/scheduler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/server/scheduler_support.h"
#include "tests/support/wait.h"

namespace tessera {
namespace {

using namespace testing;
using server::EndReason;

// A context that no test fills: sequences without a limit run until they are cancelled, also on a busy machine.
constexpr int64_t kEndless = int64_t{1} << 17;

class Scheduling : public SchedulerTest {
 protected:
  enum class Disk : uint8_t { none, shared };
  void run_schedules(const std::string& model, int n_schedules, Disk disk = Disk::none);
  uint64_t n_from_disk_ = 0;
  static std::string cache_directory() { return temporary_path("schedules_cache"); }
};

TEST_F(Scheduling, OneSequenceGetsTheTokensOfTheGenerator) {
  open();
  for (const int64_t seed : {0, 7}) {
    const auto expected = alone(sequence(20, 30, seed), seed);
    const Running running = submit(sequence(20, 30, seed));
    const auto ended = running.collector->wait();
    EXPECT_EQ(ended[0].tokens, expected);
    EXPECT_EQ(ended[0].end->reason, EndReason::length);
    EXPECT_EQ(ended[0].end->n_generated, 30);
    EXPECT_EQ(ended[0].end->n_prompt, 20);
  }
  EXPECT_EQ(metrics_->generated_tokens, 60u);
}

// TESSERA_TEST_SCHEDULES=500 in the environment runs so many for each model.
int schedules_to_run(int all, int few) {
  const char* given = std::getenv("TESSERA_TEST_SCHEDULES");
  return given != nullptr ? std::atoi(given) : all_or_few(all, few);
}

// Arrivals, lengths, seeds, priorities and cancellations at random, on a pool that is too small for all.
void Scheduling::run_schedules(const std::string& model, int n_schedules, Disk disk) {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random()) % n; };
  for (int schedule = 0; schedule < n_schedules; ++schedule) {
    const auto n_slots = static_cast<int32_t>(1 + below(5));
    server::SchedulerOptions options;
    if (disk == Disk::shared) {
      scheduler_.reset();
      ASSERT_OK_AND_ASSIGN(options.storage,
                           server::Storage::open({.cache_directory = cache_directory(), .cache_bytes = 1 << 20}));
      options.always_restores = true;
      options.disk_delay_ms = 0;
    }
    open({.model = model,
          .n_cache_marks = model.empty() ? 0 : static_cast<int32_t>(below(12)),
          .n_slots = n_slots,
          .n_ctx = 64 * (4 + below(4)),
          .n_ubatch = 16 * (1 + below(4)),
          .options = options});
    struct Expectation {
      std::vector<int32_t> tokens;
      bool is_cancelled;
    };
    std::vector<Running> runs;
    std::vector<Expectation> expected;
    for (int i = 0; i < 8; ++i) {
      const int64_t n = 1 + below(90), n_predict = 1 + below(60), seed = below(3), first = below(2) * 40;
      const bool is_cancelled = below(6) == 0;
      server::SequenceSpec spec = sequence(n, n_predict, seed, first);
      spec.reuses_cache = below(4) != 0;
      expected.push_back({alone(spec, seed), is_cancelled});
      runs.push_back(submit(std::move(spec), below(2) == 0 ? "a" : "b", static_cast<int>(below(3)) - 1));
      if (is_cancelled) scheduler_->cancel(runs.back().task);
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      const auto ended = runs[i].collector->wait();
      if (!expected[i].is_cancelled) {
        EXPECT_EQ(ended[0].tokens, expected[i].tokens) << "schedule " << schedule << ", sequence " << i;
        continue;
      }
      const size_t n = ended[0].tokens.size();
      EXPECT_TRUE(std::ranges::equal(ended[0].tokens, std::span(expected[i].tokens).first(n)));
    }
    wait_until_idle();
    n_from_disk_ += metrics_->disk_prompt_tokens;
  }
}

TEST_F(Scheduling, TokensAreTheSameInAnyCompany) { run_schedules("", schedules_to_run(60, 6)); }

TEST_F(Scheduling, TokensAreTheSameInAnyCompanyWithWindowsAndStates) {
  for (const char* model : {"gemma2-dense", "mamba-dense", "lfm2-dense"}) run_schedules(model, schedules_to_run(20, 3));
}

// Each schedule begins with nothing in memory, and finds what earlier ones have written.
TEST_F(Scheduling, TokensAreTheSameAfterRestartsWithTheDiskTier) {
  for (const char* model : {"", "gemma2-dense", "mamba-dense", "lfm2-dense"}) {
    scheduler_.reset();
    std::filesystem::remove_all(cache_directory());
    n_from_disk_ = 0;
    run_schedules(model, schedules_to_run(20, 5), Disk::shared);
    EXPECT_GT(n_from_disk_, 0u) << model;
  }
}

// A window's blocks are few. They must be enough for prompts of many micro-batches.
TEST_F(Scheduling, LongPromptsOfModelsWithWindowsRunToTheirEnd) {
  open({.model = "gemma2-dense", .n_slots = 1, .n_ctx = 4096, .n_ubatch = 16, .options = {}});
  const auto ended = submit(sequence(2000, 5)).collector->wait();
  EXPECT_EQ(ended[0].end->reason, EndReason::length);
  EXPECT_EQ(ended[0].tokens.size(), 5u);
}

// Both sequences are of one task. They start together, however busy the machine is.
TEST_F(Scheduling, AFullPoolTakesASlotAndGivesItBack) {
  open({.n_slots = 2, .n_ctx = 256, .options = {}});
  const auto first = alone(sequence(60, 190), 0), second = alone(sequence(50, 190, 3), 3);
  server::TaskSpec task{.client = "c", .sequences = {}, .sink = nullptr};
  task.sequences.push_back(sequence(60, 190));
  task.sequences.push_back(sequence(50, 190, 3));
  const Running running = submit(std::move(task));
  const auto ended = running.collector->wait();
  EXPECT_EQ(ended[0].tokens, first);
  EXPECT_EQ(ended[1].tokens, second);
  EXPECT_GT(metrics_->preempted[static_cast<size_t>(server::PreemptionReason::memory)], 0u);
}

TEST_F(Scheduling, AloneAPromptAndItsTextMayFillThePool) {
  open({.n_slots = 2, .n_ctx = 128, .options = {}});
  const auto ended = submit(sequence(100, 500)).collector->wait();
  EXPECT_EQ(ended[0].end->reason, EndReason::context_full);
  EXPECT_EQ(ended[0].end->n_generated, 28);
}

TEST_F(Scheduling, ASlotIsBoundedByItsContext) {
  open({.n_slots = 2, .n_ctx = 512, .options = {.slot_context = 50}});
  EXPECT_EQ(submit(sequence(20, 500)).collector->wait()[0].end->n_generated, 30);
}

TEST_F(Scheduling, ChoicesShareThePrompt) {
  open({.n_slots = 3, .options = {}});
  server::TaskSpec task{.client = "c", .sequences = {}, .sink = nullptr};
  for (int64_t seed = 1; seed <= 3; ++seed) {
    task.sequences.push_back(sequence(100, 10, seed));
    if (seed > 1) task.sequences.back().same_prompt_as = 0;
  }
  const Running running = submit(std::move(task));
  const auto ended = running.collector->wait();
  EXPECT_EQ(ended[0].n_cached, 0);
  EXPECT_EQ(ended[1].n_cached, 99);
  EXPECT_EQ(ended[2].n_cached, 99);
  for (int64_t seed = 1; seed <= 3; ++seed)
    EXPECT_EQ(ended[static_cast<size_t>(seed - 1)].tokens, alone(sequence(100, 10, seed), seed));
  EXPECT_EQ(metrics_->prompt_tokens, 102u);
}

TEST_F(Scheduling, ALaterPromptReusesTheCommonStart) {
  open();
  submit(sequence(100, 5)).collector->wait();
  const auto again = submit(sequence(120, 5)).collector->wait();
  EXPECT_EQ(again[0].n_cached, 100);
  EXPECT_EQ(again[0].tokens, alone(sequence(120, 5), 0));
  server::SequenceSpec without = sequence(120, 5);
  without.reuses_cache = false;
  EXPECT_EQ(submit(std::move(without)).collector->wait()[0].n_cached, 0);
}

TEST_F(Scheduling, ASlotThatIsAskedForIsUsedWithWhatItHolds) {
  open({.n_slots = 3, .options = {}});
  server::SequenceSpec spec = sequence(80, 4);
  spec.slot = 2;
  EXPECT_EQ(submit(std::move(spec)).collector->wait()[0].slot, 2);
  spec = sequence(80, 4);
  spec.slot = 1;
  const auto other = submit(std::move(spec)).collector->wait();
  EXPECT_EQ(other[0].slot, 1);
  EXPECT_EQ(other[0].n_cached, 0);
  spec = sequence(80, 4);
  spec.slot = 2;
  EXPECT_EQ(submit(std::move(spec)).collector->wait()[0].n_cached, 79);
}

TEST_F(Scheduling, NoTokenIsComputedWithoutPrediction) {
  open();
  const auto ended = submit(sequence(30, 0)).collector->wait();
  EXPECT_TRUE(ended[0].tokens.empty());
  EXPECT_EQ(ended[0].end->reason, EndReason::length);
  EXPECT_EQ(ended[0].end->n_stored, 30);
}

TEST_F(Scheduling, ProgressIsReported) {
  open({.n_slots = 1, .n_ubatch = 32, .options = {.n_batch = 32}});
  server::SequenceSpec spec = sequence(100, 1);
  spec.progress_tokens = 50;
  EXPECT_EQ(submit(std::move(spec)).collector->wait()[0].progress, (std::vector<int64_t>{64, 100}));
}

TEST_F(Scheduling, StopStringsEndTheText) {
  open();
  const auto whole = submit(sequence(20, 40)).collector->wait()[0].text;
  ASSERT_GT(whole.size(), 20u);
  server::SequenceSpec spec = sequence(20, 40);
  spec.stop = {whole.substr(10, 3)};
  const auto ended = submit(std::move(spec)).collector->wait();
  EXPECT_EQ(ended[0].text, whole.substr(0, whole.find(whole.substr(10, 3))));
  EXPECT_EQ(ended[0].end->reason, EndReason::stop_word);
  EXPECT_EQ(ended[0].end->stopping_word, whole.substr(10, 3));
}

TEST_F(Scheduling, ProbabilitiesAreThoseOfTheLogits) {
  open();
  server::SequenceSpec spec = sequence(20, 5);
  spec.n_probs = 3;
  const auto raw = submit(std::move(spec)).collector->wait();
  ASSERT_EQ(raw[0].probs.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(raw[0].probs[i].chosen.id, raw[0].tokens[i]);
    ASSERT_EQ(raw[0].probs[i].top.size(), 3u);
    EXPECT_EQ(raw[0].probs[i].top[0].id, raw[0].tokens[i]);  // greedy
    EXPECT_EQ(raw[0].probs[i].top[0].value, raw[0].probs[i].chosen.value);
    EXPECT_LT(raw[0].probs[i].top[0].value, 0);
  }
  spec = sequence(20, 5, 4);
  spec.n_probs = 500;
  spec.probs_after_sampling = true;
  const auto after = submit(std::move(spec)).collector->wait();
  for (const server::TokenProbs& probs : after[0].probs) {
    float sum = 0;
    for (const server::TokenProb& one : probs.top) sum += one.value;
    EXPECT_NEAR(sum, 1, 1e-5);  // f32 values of at most 40 candidates
    EXPECT_GT(probs.chosen.value, 0);
  }
}

TEST_F(Scheduling, CancelledSequencesEndAndFreeTheirSlots) {
  open({.n_slots = 1, .n_ctx = kEndless, .options = {}});
  const Running running = submit(sequence(10, -1)), waiting = submit(sequence(10, 5));
  running.collector->wait_for_tokens(3);
  EXPECT_FALSE(waiting.collector->has_started());
  scheduler_->cancel(running.task);
  EXPECT_EQ(running.collector->wait()[0].end->reason, EndReason::cancelled);
  EXPECT_EQ(waiting.collector->wait()[0].tokens.size(), 5u);
  const Running first = submit(sequence(10, -1)), second = submit(sequence(10, -1));
  first.collector->wait_for_tokens(1);
  scheduler_->cancel(second.task);  // while it waits
  EXPECT_EQ(second.collector->wait()[0].end->reason, EndReason::cancelled);
  EXPECT_EQ(second.collector->wait()[0].end->n_generated, 0);
  scheduler_->cancel(first.task);
  wait_until_idle();
  EXPECT_EQ(scheduler_->n_waiting(), 0);
}

TEST_F(Scheduling, AStreamGetsATokenInEachStepBesideALongPrompt) {
  open({.n_slots = 2, .n_ctx = kEndless, .n_ubatch = 512, .options = {.step_target_ms = 1e-6}});
  const Running stream = submit(sequence(10, -1));
  stream.collector->wait_for_tokens(2);
  const auto n_steps_before = metrics_->decode_calls.load();
  const size_t n_before = stream.collector->n_tokens();
  server::SequenceSpec spec = sequence(400, 1, 0, 11);
  submit(std::move(spec)).collector->wait();
  const auto n_steps = metrics_->decode_calls.load() - n_steps_before;
  EXPECT_GE(n_steps, 400u / 16);  // a target that no step meets leaves 16 tokens of a prompt to each
  EXPECT_GE(stream.collector->n_tokens() + 1, n_before + 400 / 16);
  scheduler_->cancel(stream.task);
}

TEST_F(Scheduling, TheQueueHasLimits) {
  open({.n_slots = 1, .n_ctx = kEndless, .options = {.queue = {.n_tasks = 3, .n_client_tasks = 2, .n_tokens = 100}}});
  const Running running = submit(sequence(10, -1));
  running.collector->wait_for_tokens(1);
  const Running one = submit(sequence(10, 1), "x"), two = submit(sequence(10, 1), "x");
  const auto refused = [&](int64_t n, const std::string& client) {
    server::TaskSpec task{.client = client, .sequences = {}, .sink = std::make_shared<Collector>(1)};
    task.sequences.push_back(sequence(n, 1));
    return scheduler_->submit(std::move(task)).error();
  };
  EXPECT_TRUE(refused(10, "x").is_clients_own);
  EXPECT_NE(refused(81, "y").message.find("tokens"), std::string::npos);
  const Running three = submit(sequence(80, 1), "y");
  EXPECT_FALSE(refused(10, "z").is_clients_own);
  EXPECT_GE(refused(10, "z").retry_after_s, 1);
  scheduler_->cancel(running.task);
  for (const Running& each : {one, two, three}) EXPECT_EQ(each.collector->wait()[0].tokens.size(), 1u);
  EXPECT_EQ(metrics_->refused_client, 1u);
  EXPECT_EQ(metrics_->refused_full, 3u);
}

// Both slots become free in the same step, again and again. With this poll the next sequences would wait an hour.
TEST_F(Scheduling, TheNextSequencesBeginAtOnceWhenAllHaveEnded) {
  open({.n_slots = 2, .options = {.paused_poll_ms = 3'600'000}});
  server::TaskSpec task{.client = "c", .sequences = {}, .sink = nullptr};
  for (int i = 0; i < 9; ++i) task.sequences.push_back(sequence(5, 1));
  EXPECT_EQ(submit(std::move(task)).collector->wait().size(), 9u);
}

TEST_F(Scheduling, PlacesInTheQueueAreReported) {
  open({.n_slots = 1, .n_ctx = kEndless, .options = {}});
  const Running running = submit(sequence(10, -1));
  running.collector->wait_for_tokens(1);
  const Running first = submit(sequence(10, 1), "a"), second = submit(sequence(10, 1), "b");
  second.collector->wait_for_place(1);
  first.collector->wait_for_place(0);
  scheduler_->cancel(running.task);
  second.collector->wait();
}

TEST_F(Scheduling, DeadlinesEndWaitingAndRunningSequences) {
  open({.n_slots = 1, .n_ctx = kEndless, .options = {}});
  const auto with_deadline = [&](int64_t ms) {
    server::TaskSpec task{.client = "c",
                          .deadline = server::Clock::now() + std::chrono::milliseconds(ms),
                          .sequences = {},
                          .sink = nullptr};
    task.sequences.push_back(sequence(10, -1));
    return submit(std::move(task));
  };
  const Running blocker = submit(sequence(10, -1));
  blocker.collector->wait_for_tokens(1);
  const auto late = with_deadline(1).collector->wait();
  EXPECT_EQ(late[0].end->reason, EndReason::failed);
  EXPECT_TRUE(late[0].end->is_overloaded);
  scheduler_->cancel(blocker.task);
  blocker.collector->wait();
  const Running running = with_deadline(100);
  const EndReason reason = running.collector->wait()[0].end->reason;
  EXPECT_TRUE(reason == EndReason::time || reason == EndReason::context_full);
}

TEST_F(Scheduling, ASlowReaderPausesOnlyItself) {
  open({.n_slots = 2, .n_ctx = kEndless, .options = {.stream_buffer = 1000, .slow_reader_ms = 10}});
  const Running slow = submit(sequence(10, -1));
  slow.collector->wait_for_tokens(1);
  EXPECT_TRUE(wait_until([&] { return metrics_->n_busy_slots == 1; }));
  EXPECT_EQ(metrics_->n_paused_slots, 0);
  slow.collector->n_unsent_set = 1000;
  slow.collector->stalled_ms_set = 10;  // not too long yet
  EXPECT_EQ(submit(sequence(10, 20)).collector->wait()[0].tokens.size(), 20u);
  EXPECT_TRUE(wait_until([&] { return metrics_->n_paused_slots == 1; }));
  const size_t n_paused = slow.collector->n_tokens();
  EXPECT_EQ(submit(sequence(10, 20)).collector->wait()[0].tokens.size(), 20u);
  EXPECT_EQ(slow.collector->n_tokens(), n_paused);
  slow.collector->n_unsent_set = 100;  // it reads again
  slow.collector->wait_for_tokens(n_paused + 5);
  slow.collector->n_unsent_set = 1000;
  slow.collector->stalled_ms_set = 11;
  EXPECT_EQ(slow.collector->wait()[0].end->reason, EndReason::slow_reader);
}

TEST_F(Scheduling, SlotsOfSlowReadersGoToOthers) {
  open({.n_slots = 1, .n_ctx = kEndless, .options = {.stream_buffer = 1000}});
  const auto expected = alone(sequence(10, 60), 0);
  const Running slow = submit(sequence(10, 60));
  slow.collector->wait_for_tokens(1);
  slow.collector->n_unsent_set = 1000;
  EXPECT_EQ(submit(sequence(10, 20)).collector->wait()[0].tokens.size(), 20u);
  const size_t n_before = slow.collector->n_tokens();
  slow.collector->n_unsent_set = 250;  // it comes back with less than a quarter of the buffer
  for (int i = 0; i < 3; ++i) EXPECT_EQ(submit(sequence(10, 5)).collector->wait()[0].tokens.size(), 5u);
  EXPECT_EQ(slow.collector->n_tokens(), n_before);
  slow.collector->n_unsent_set = 249;
  EXPECT_EQ(slow.collector->wait()[0].tokens, expected);
}

TEST_F(Scheduling, AMoreUrgentRequestTakesASlot) {
  open({.n_slots = 1, .n_ctx = kEndless, .options = {}});
  const Running patient = submit(sequence(10, -1), "c", 5);
  patient.collector->wait_for_tokens(1);
  const Running urgent = submit(sequence(10, 3), "d", -1);
  EXPECT_EQ(urgent.collector->wait()[0].tokens.size(), 3u);
  EXPECT_EQ(metrics_->preempted[static_cast<size_t>(server::PreemptionReason::priority)], 1u);
  patient.collector->wait_for_tokens(patient.collector->n_tokens() + 3);  // it goes on
  scheduler_->cancel(patient.task);
  EXPECT_EQ(patient.collector->wait()[0].end->reason, EndReason::cancelled);
}

TEST_F(Scheduling, ARequestForABusySlotWaitsAndIsPassed) {
  open({.n_slots = 2, .n_ctx = kEndless, .options = {}});
  const auto for_slot = [&](int64_t n_predict) {
    server::SequenceSpec spec = sequence(10, n_predict);
    spec.slot = 0;
    return spec;
  };
  const Running running = submit(for_slot(-1));
  running.collector->wait_for_tokens(1);
  const Running waiting = submit(for_slot(3));
  EXPECT_EQ(submit(sequence(10, 3)).collector->wait()[0].slot, 1);
  EXPECT_FALSE(waiting.collector->has_started());
  scheduler_->cancel(running.task);
  EXPECT_EQ(running.collector->wait()[0].end->reason, EndReason::cancelled);
  const auto ended = waiting.collector->wait();
  EXPECT_EQ(ended[0].slot, 0);
  EXPECT_EQ(ended[0].tokens.size(), 3u);
}

TEST_F(Scheduling, AnIdleSchedulerStreamsNothing) {
  open();
  server::ComputeTurns::Party other(turns_);
  submit(sequence(10, 20)).collector->wait();
  EXPECT_TRUE(wait_until([&] { return !other.others_stream(); }));
}

TEST_F(Scheduling, TimesAreInSeconds) {
  const auto sum_of = [](const server::Histogram& histogram) {
    std::string text;
    histogram.write(text, "h", "");
    const std::string name = "h_sum{} ";
    return std::stod(text.substr(text.find(name) + name.size()));
  };
  open({.n_slots = 1, .options = {}});
  const auto begin = server::Clock::now();
  const Running first = submit(sequence(300, 100)), second = submit(sequence(200, 100, 0, 3));
  first.collector->wait();
  second.collector->wait();
  wait_until_idle();
  const double seconds = std::chrono::duration<double>(server::Clock::now() - begin).count();
  for (const double used : {metrics_->prompt_seconds.load(), metrics_->generation_seconds.load(),
                            sum_of(metrics_->queue_seconds), sum_of(metrics_->step_seconds)}) {
    EXPECT_GT(used, 0);
    EXPECT_LT(used, seconds);
  }
  EXPECT_LT(sum_of(metrics_->request_seconds), 2 * seconds);
}

TEST_F(Scheduling, WithoutADirectorySlotsAreNotSaved) {
  const std::string directory = temporary_path("no_slots");
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<server::Storage> cache_only,
                       server::Storage::open({.cache_directory = directory}));
  for (const auto& storage : {std::shared_ptr<server::Storage>(), cache_only}) {
    open({.options = {.storage = storage}});
    int n_errors = 0;
    const auto expect_error = [&](const Result<server::SlotFileReport>& report) {
      EXPECT_ERROR(report, "there is no directory for slots");
      ++n_errors;
    };
    scheduler_->save_slot(0, "a", expect_error);
    scheduler_->restore_slot(0, "a", expect_error);
    EXPECT_EQ(n_errors, 2);
  }
  scheduler_.reset();
}

TEST_F(Scheduling, DrainingEndsWhatWaits) {
  open({.n_slots = 1, .n_ctx = kEndless, .options = {}});
  const Running running = submit(sequence(10, -1)), waiting = submit(sequence(10, 3));
  running.collector->wait_for_tokens(1);
  scheduler_->drain();
  EXPECT_EQ(waiting.collector->wait()[0].end->reason, EndReason::failed);
  running.collector->wait_for_tokens(running.collector->n_tokens() + 3);  // it goes on
  scheduler_->cancel(running.task);
  server::TaskSpec late{.client = "c", .sequences = {}, .sink = std::make_shared<Collector>(1)};
  late.sequences.push_back(sequence(10, 3));
  EXPECT_FALSE(scheduler_->submit(std::move(late)).has_value());
}

TEST_F(Scheduling, StoppingEndsEverything) {
  open({.n_slots = 1, .n_ctx = kEndless, .options = {}});
  const Running running = submit(sequence(10, -1)), waiting = submit(sequence(10, 3));
  running.collector->wait_for_tokens(1);
  scheduler_->stop();
  EXPECT_EQ(running.collector->wait()[0].end->reason, EndReason::failed);
  EXPECT_EQ(waiting.collector->wait()[0].end->reason, EndReason::failed);
}

TEST_F(Scheduling, SlotsCanBeSeenAndErased) {
  open({.n_slots = 2, .options = {}});
  submit(sequence(40, 3)).collector->wait();
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int64_t> stored;
  int64_t n_erased = -1;
  const auto look = [&](std::span<const server::SlotView> slots) {
    const std::lock_guard lock(mutex);
    for (const server::SlotView& slot : slots) stored.push_back(slot.n_last);
    changed.notify_all();
  };
  scheduler_->inspect(look);
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, Collector::kPatience, [&] { return stored.size() == 2; }));
  const auto used = static_cast<int32_t>(stored[0] > 0 ? 0 : 1);
  EXPECT_EQ(stored[static_cast<size_t>(used)], 42);  // the last token was not computed
  scheduler_->erase(used, [&](int64_t n) {
    const std::lock_guard inner(mutex);
    n_erased = n;
    changed.notify_all();
  });
  ASSERT_TRUE(changed.wait_for(lock, Collector::kPatience, [&] { return n_erased >= 0; }));
  EXPECT_EQ(n_erased, 42);
  lock.unlock();
  server::SequenceSpec spec = sequence(40, 3);
  spec.slot = used;
  EXPECT_EQ(submit(std::move(spec)).collector->wait()[0].n_cached, 0);
}

}  // namespace
}  // namespace tessera
