// A scheduler on the test model, and a client that collects the events of a task.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/engine/generate.h"
#include "tessera/engine/speculative/prediction_head.h"
#include "tessera/server/run/scheduler.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera::testing {

/// Collects the events of a task. Counts as a client that reads all, unless a test sets n_unsent.
class Collector final : public server::TaskSink {
 public:
  struct Sequence {
    std::vector<int32_t> tokens{};
    std::string text{};
    int64_t n_cached = -1;
    int64_t place = -1;  // in the queue
    int32_t slot = -1;
    std::vector<int64_t> progress{};
    std::vector<server::TokenProbs> probs{};
    std::vector<server::TokenProbs> scores{};  // of the prompt
    std::shared_ptr<server::SequenceEnd> end{};
  };

  explicit Collector(size_t n_sequences) : sequences_(n_sequences), n_open_(n_sequences) {}

  void on_event(server::TaskEvent& event) override {
    const std::lock_guard lock(mutex_);
    Sequence& sequence = sequences_[event.sequence];
    sequence.slot = event.slot;
    sequence.text += event.text;
    if (event.kind == server::TaskEvent::Kind::waiting) sequence.place = event.n_done;
    if (event.kind == server::TaskEvent::Kind::started) sequence.n_cached = event.n_cached;
    if (event.kind == server::TaskEvent::Kind::progress) sequence.progress.push_back(event.n_done);
    if (event.kind == server::TaskEvent::Kind::token && event.token >= 0) sequence.tokens.push_back(event.token);
    if (event.probs) sequence.probs.push_back(std::move(*event.probs));
    std::ranges::move(event.scores, std::back_inserter(sequence.scores));
    if (event.end) {
      sequence.end = std::move(event.end);
      --n_open_;
    }
    changed_.notify_all();
  }
  void flush() override {}
  size_t n_unsent() const override { return n_unsent_set.load(); }
  int64_t stalled_ms() const override { return stalled_ms_set.load(); }

  /// Waits for the ends of all sequences and returns them.
  std::vector<Sequence> wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return n_open_ == 0; })) << "the task does not end";
    return sequences_;
  }
  /// Waits until a sequence has n tokens.
  void wait_for_scores(size_t n) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return sequences_[0].scores.size() >= n; }));
  }
  void wait_for_tokens(size_t n, size_t sequence = 0) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return sequences_[sequence].tokens.size() >= n; }));
  }
  /// Waits until the first sequence was told its place in the queue.
  void wait_for_place(int64_t place) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return sequences_[0].place == place; }));
  }
  size_t n_tokens(size_t sequence = 0) {
    const std::lock_guard lock(mutex_);
    return sequences_[sequence].tokens.size();
  }
  bool has_started(size_t sequence = 0) {
    const std::lock_guard lock(mutex_);
    return sequences_[sequence].n_cached >= 0;
  }

  static constexpr std::chrono::seconds kPatience{120};
  std::atomic<size_t> n_unsent_set{0};
  std::atomic<int64_t> stalled_ms_set{0};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Sequence> sequences_;
  size_t n_open_;
};

struct SchedulerSetup {
  std::string model{};       // of tests/data/arch_specs; empty: the trained model
  std::string head_model{};  // the path of a model with a prediction head, which is used instead
  std::string draft_file{};  // the path of a draft model for `model` that takes its hidden states
  int32_t n_cache_marks = 0;
  int32_t n_slots = 4;
  int64_t n_ctx = 512;
  int64_t n_ubatch = 64;
  int64_t n_score_rows = 0;  // rows of logits beside one for each slot
  server::SchedulerOptions options{};
};

class SchedulerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(story_model()));
    model_.clear();
  }
  static void TearDownTestSuite() { engine_.reset(); }

  void open(SchedulerSetup setup = {}) {
    scheduler_.reset();
    metrics_ = std::make_unique<server::ModelMetrics>();
    head_.reset();
    session_.reset();
    if (!setup.head_model.empty()) {
      ASSERT_OK_AND_ASSIGN(engine_, load_engine(setup.head_model, {.head = HeadUse::needed}));
      model_ = setup.head_model;
    } else if (setup.model != model_) {
      ASSERT_OK_AND_ASSIGN(engine_, load_engine(setup.model.empty() ? story_model() : arch_model(setup.model)));
      model_ = setup.model;
    }
    SessionOptions session{.n_ctx = setup.n_ctx,
                           .n_ubatch = setup.n_ubatch,
                           .n_sequences = setup.n_slots,
                           .n_outputs = setup.n_slots + setup.n_score_rows,
                           .n_cache_marks = setup.n_cache_marks};
    if (!setup.draft_file.empty()) {
      ASSERT_OK_AND_ASSIGN(setup.options.speculation.follower, load_engine(setup.draft_file, {.target = engine_}));
    }
    setup.options.speculation.extend(session);
    ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, session));
    if (!setup.head_model.empty() || !setup.draft_file.empty()) {
      ASSERT_OK_AND_ASSIGN(head_, PredictionHead::create(engine_, *session_));
      setup.options.head = head_.get();
    }
    setup.options.n_slots = setup.n_slots;
    if (setup.options.slot_context == 0) setup.options.slot_context = setup.n_ctx;
    setup.options.n_ubatch = setup.n_ubatch;
    ASSERT_OK_AND_ASSIGN(scheduler_,
                         server::Scheduler::create(*session_, setup.options, *metrics_, turns_,
                                                   [](size_t, const std::function<void()>& task) { task(); }));
  }

  static sample::SamplerParams sampling(int64_t seed) {
    sample::SamplerParams params;
    params.seed = seed;
    if (seed == 0) params.temp = 0;
    return params;
  }

  /// A sequence with the first n tokens of the test text from `first` on. seed 0: greedy.
  server::SequenceSpec sequence(int64_t n, int64_t n_predict, int64_t seed = 0, int64_t first = 0) {
    server::SequenceSpec spec;
    const auto all = token_ids(*engine_, first + n);
    spec.prompt.assign(all.begin() + first, all.end());
    spec.chain = sample::Chain::create(sampling(seed), sampling_vocab(engine_), 4096).value();
    for (const int32_t token : spec.prompt) EXPECT_OK(spec.chain->accept_prompt(token));
    spec.n_predict = n_predict;
    spec.ignores_end = true;
    return spec;
  }

  struct Running {
    std::shared_ptr<Collector> collector;
    std::shared_ptr<server::Task> task;
  };
  Running submit(server::TaskSpec spec) {
    Running running{.collector = std::make_shared<Collector>(spec.sequences.size()), .task = nullptr};
    spec.sink = running.collector;
    spec.received = server::Clock::now();
    auto task = scheduler_->submit(std::move(spec));
    EXPECT_TRUE(task.has_value());
    if (task) running.task = *task;
    return running;
  }
  Running submit(server::SequenceSpec spec, const std::string& client = "c", int priority = 0) {
    server::TaskSpec task{.client = client, .priority = priority, .sequences = {}, .sink = nullptr};
    task.sequences.push_back(std::move(spec));
    return submit(std::move(task));
  }

  /// The tokens of a sequence that is alone, by the generator of the engine.
  std::vector<int32_t> alone(const server::SequenceSpec& spec, int64_t seed) {
    auto session = Session::create(engine_, {.n_ctx = 512, .n_ubatch = 64}).value();
    auto chain = sample::Chain::create(sampling(seed), sampling_vocab(engine_), 4096).value();
    Generator generator(*session, *chain, 0, {.n_predict = spec.n_predict, .ignore_end = true});
    EXPECT_OK(generator.start(spec.prompt, nullptr));
    std::vector<int32_t> tokens;
    while (true) {
      const int32_t token = generator.next(nullptr).value();
      if (token < 0) return tokens;
      tokens.push_back(token);
    }
  }

  void wait_until_idle() {
    const auto deadline = server::Clock::now() + Collector::kPatience;
    while (!scheduler_->is_idle() && server::Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(scheduler_->is_idle());
  }

  static inline std::shared_ptr<Engine> engine_;
  static inline std::string model_;  // of the engine
  std::unique_ptr<Session> session_;
  std::unique_ptr<PredictionHead> head_;
  server::ComputeTurns turns_;
  std::unique_ptr<server::ModelMetrics> metrics_;
  std::unique_ptr<server::Scheduler> scheduler_;
};

}  // namespace tessera::testing
