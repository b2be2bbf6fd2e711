// The runner of embeddings: same bits in any batch and beside streams, turns, fairness, limits, ends.
#include "tessera/server/run/embedder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/server/scheduler_support.h"
#include "tests/support/tiny_encoder.h"

namespace tessera {
namespace {

using namespace testing;
using nn::Pooling;
using Texts = std::vector<std::vector<int32_t>>;

/// Another party of the process, which has the turn and streams.
class Stream {
 public:
  explicit Stream(server::ComputeTurns& turns) : party_(turns) { party_.set_streaming(true); }
  void take() { party_.take(); }
  void release() { party_.release(); }

 private:
  server::ComputeTurns::Party party_;
};

/// Collects events, and notes the number of batches at the last one.
class NotingSink final : public server::TaskSink {
 public:
  NotingSink(std::shared_ptr<Collector> collector, const server::ModelMetrics& metrics)
      : collector_(std::move(collector)), metrics_(metrics) {}

  void on_event(server::TaskEvent& event) override {
    n_batches = metrics_.decode_calls.load();
    collector_->on_event(event);
  }
  void flush() override {}
  size_t n_unsent() const override { return 0; }
  int64_t stalled_ms() const override { return 0; }

  std::atomic<uint64_t> n_batches{0};

 private:
  std::shared_ptr<Collector> collector_;
  const server::ModelMetrics& metrics_;
};

struct EmbedderSetup {
  Pooling pooling = Pooling::mean;
  int64_t n_ctx = 256;
  int64_t n_ubatch = 64;
  server::EmbedderOptions options{.n_batch = 64};
};

class EmbedderTest : public ::testing::Test {
 protected:
  void open(const std::string& path, EmbedderSetup setup = {}) {
    embedder_.reset();
    session_.reset();
    metrics_ = std::make_unique<server::ModelMetrics>();
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path));
    pooling_ = setup.pooling;
    EmbeddingUse use;
    setup.pooling == Pooling::rank ? void(use.ranks = true) : void(use.pooling = setup.pooling);
    const SessionOptions given{.n_ctx = setup.n_ctx, .n_ubatch = setup.n_ubatch};
    ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, embedding_session(*engine_, use, given)));
    ASSERT_OK_AND_ASSIGN(embedder_,
                         server::Embedder::create(*session_, use, setup.options, *metrics_, turns_,
                                                  [](size_t, const std::function<void()>& task) { task(); }));
  }
  void TearDown() override { embedder_.reset(); }

  std::vector<int32_t> text(int64_t n, uint32_t seed = 1) const { return token_ids(*engine_, n, seed); }

  struct Running {
    std::shared_ptr<Collector> collector;
    std::shared_ptr<NotingSink> sink;
    std::shared_ptr<server::Task> task;
  };
  server::TaskSpec spec_of(const Texts& texts, const std::string& client = "c") const {
    server::TaskSpec spec{.client = client, .received = server::Clock::now(), .sequences = {}, .sink = nullptr};
    spec.wants_scores = pooling_ == Pooling::rank;
    for (const std::vector<int32_t>& one : texts) spec.sequences.push_back({.prompt = one, .chain = nullptr});
    return spec;
  }
  Running submit(server::TaskSpec spec) {
    Running running{.collector = std::make_shared<Collector>(spec.sequences.size()), .sink = nullptr, .task = nullptr};
    spec.sink = running.sink = std::make_shared<NotingSink>(running.collector, *metrics_);
    auto task = embedder_->submit(std::move(spec));
    EXPECT_TRUE(task.has_value());
    if (task) running.task = *task;
    return running;
  }
  Running submit(const Texts& texts, const std::string& client = "c") { return submit(spec_of(texts, client)); }

  /// The results by the engine.
  std::vector<std::vector<float>> expected(const Texts& texts) const {
    auto session = Session::create(engine_, embedding_session(*engine_, texts, pooling_, {}).value()).value();
    std::vector<std::vector<float>> vectors;
    const auto keep = [&](size_t, std::span<const float> values) -> Result<> {
      vectors.emplace_back(values.begin(), values.end());
      return {};
    };
    EXPECT_OK(embed(*session, texts, pooling_, keep, nullptr));
    return vectors;
  }
  void expect_results(const Running& running, const std::vector<std::vector<float>>& vectors) {
    const auto ended = running.collector->wait();
    ASSERT_EQ(ended.size(), vectors.size());
    for (size_t i = 0; i < ended.size(); ++i) {
      ASSERT_EQ(ended[i].end->reason, server::EndReason::eos)
          << (ended[i].end->error ? ended[i].end->error->message() : "");
      EXPECT_TRUE(same_bits(ended[i].end->values, vectors[i])) << i;
    }
  }

  void wait_until_idle() {
    const auto deadline = server::Clock::now() + Collector::kPatience;
    while (!embedder_->is_idle() && server::Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(embedder_->is_idle());
  }
  /// Waits until the embedder waits for its turn, with the tasks that it has.
  void wait_until_it_waits() {
    while (turns_.n_waiting() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  // Texts of several clients, some cancelled, on a machine that streams now and then.
  void run_schedules(const std::string& path, Pooling pooling, int n_schedules) {
    Rng rng(pooling == Pooling::mean ? 11 : 12);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(rng.next_u32() % static_cast<uint64_t>(n)); };
    for (int schedule = 0; schedule < n_schedules; ++schedule) {
      open(path, {.pooling = pooling,
                  .n_ctx = 96,
                  .n_ubatch = 16 + 8 * below(4),
                  .options = {.n_batch = 16 + 8 * below(8), .step_target_ms = below(2) == 0 ? 1e-3 : 5}});
      Stream other(turns_);
      std::vector<Running> runs;
      std::vector<std::vector<std::vector<float>>> vectors;
      for (int r = 0; r < 6; ++r) {
        Texts texts;
        for (int64_t i = 0, n = 1 + below(6); i < n; ++i)
          texts.push_back(text(1 + below(below(3) == 0 ? 96 : 12), static_cast<uint32_t>(below(1000))));
        vectors.push_back(expected(texts));
        if (below(2) == 0) other.take();
        runs.push_back(submit(texts, below(2) == 0 ? "a" : "b"));
        if (below(5) == 0) {
          embedder_->cancel(runs.back().task);
          vectors.back().clear();
        }
        other.release();
      }
      for (size_t i = 0; i < runs.size(); ++i) {
        if (!vectors[i].empty()) expect_results(runs[i], vectors[i]);
        runs[i].collector->wait();
      }
      wait_until_idle();
    }
  }

  std::shared_ptr<Engine> engine_;
  Pooling pooling_ = Pooling::mean;
  std::unique_ptr<Session> session_;
  server::ComputeTurns turns_;
  std::unique_ptr<server::ModelMetrics> metrics_;
  std::unique_ptr<server::Embedder> embedder_;
};

class EmbedderRuns : public EmbedderTest {};

std::string tiny_bert(bool has_head = false) {
  TinyEncoder tiny("bert");
  if (has_head) tiny.linear("cls.output", TinyEncoder::kWidth, 1, true);
  return tiny.write(has_head ? "ranker.gguf" : "encoder.gguf");
}

TEST_F(EmbedderRuns, BitsAreTheSameInAnyCompany) {
  run_schedules(story_model(), Pooling::mean, all_or_few(30, 4));
  run_schedules(story_model(), Pooling::last, all_or_few(30, 2));
}

TEST_F(EmbedderRuns, BitsOfEncodersAreTheSameInAnyCompany) {
  run_schedules(tiny_bert(), Pooling::cls, all_or_few(30, 3));
  run_schedules(TinyEncoder("modern-bert").write("modern.gguf"), Pooling::mean, all_or_few(30, 3));
  run_schedules(tiny_bert(true), Pooling::rank, all_or_few(30, 3));
}

TEST_F(EmbedderRuns, BitsAreTheSameWithWindowsAndStates) {
  for (const char* model : {"gemma2-dense", "mamba-dense", "lfm2-dense"})
    run_schedules(arch_model(model), Pooling::mean, all_or_few(10, 1));
}

TEST_F(EmbedderRuns, WithoutPoolingAllRowsComeBack) {
  open(story_model(), {.pooling = Pooling::none});
  const Texts texts = {text(200), text(3)};
  expect_results(submit(texts), expected(texts));
}

TEST_F(EmbedderRuns, ShortTextsShareABatch) {
  open(tiny_bert());
  server::ComputeTurns::Party other(turns_);
  other.take();
  const Running one = submit(Texts(5, text(8)), "a"), two = submit(Texts(3, text(8)), "b");
  wait_until_it_waits();
  other.release();
  one.collector->wait();
  two.collector->wait();
  EXPECT_EQ(metrics_->decode_calls, 1u);
  EXPECT_EQ(metrics_->prompt_tokens, 64u);
}

TEST_F(EmbedderRuns, AllSequencesOfTheSessionAreUsed) {
  open(tiny_bert());
  const auto n = static_cast<size_t>(session_->options().n_sequences);
  submit(Texts(n, text(1))).collector->wait();
  EXPECT_EQ(metrics_->decode_calls, 1u);
  submit(Texts(n + 1, text(1))).collector->wait();
  EXPECT_EQ(metrics_->decode_calls, 3u);
}

TEST_F(EmbedderRuns, TextsMayFillTheContext) {
  open(story_model(), {.n_ctx = 256, .n_ubatch = 256, .options = {.n_batch = 256}});
  ASSERT_EQ(session_->n_ctx(), 256);
  submit({text(100), text(156)}).collector->wait();
  EXPECT_EQ(metrics_->decode_calls, 1u);
  submit({text(100), text(157)}).collector->wait();
  EXPECT_EQ(metrics_->decode_calls, 3u);
}

TEST_F(EmbedderRuns, TimesAreInSeconds) {
  const auto sum_of = [](const server::Histogram& histogram) {
    std::string all;
    histogram.write(all, "h", "");
    const std::string name = "h_sum{} ";
    return std::stod(all.substr(all.find(name) + name.size()));
  };
  open(story_model(), {.n_ctx = 4096, .n_ubatch = 64, .options = {.n_batch = 64}});
  const auto begin = server::Clock::now();
  submit({text(2000)}).collector->wait();
  submit({text(2000)}).collector->wait();
  wait_until_idle();
  const double seconds = std::chrono::duration<double>(server::Clock::now() - begin).count();
  for (const double used : {metrics_->prompt_seconds.load(), sum_of(metrics_->step_seconds)}) {
    EXPECT_GT(used, 0);
    EXPECT_LT(used, seconds);
  }
  EXPECT_LT(sum_of(metrics_->queue_seconds), seconds);
}

TEST_F(EmbedderRuns, BatchesAreShortBesideAStream) {
  open(story_model(), {.n_ctx = 256, .n_ubatch = 256, .options = {.n_batch = 256, .step_target_ms = 1e-3}});
  submit({text(256)}).collector->wait();
  EXPECT_EQ(metrics_->decode_calls, 1u);
  Stream other(turns_);
  const Running run = submit({text(256)});
  expect_results(run, expected({text(256)}));
  EXPECT_GE(metrics_->decode_calls, 1u + 256 / 32);  // 16 tokens each, as far as the forecast has learned
}

// The chunks of a model that is not causal are whole texts.
TEST_F(EmbedderRuns, TextsOfAnEncoderAreWholeBesideAStream) {
  open(tiny_bert(), {.options = {.n_batch = 64, .step_target_ms = 1e-3}});
  submit(Texts(8, text(8))).collector->wait();
  EXPECT_EQ(metrics_->decode_calls, 1u);
  Stream other(turns_);
  submit(Texts(8, text(8))).collector->wait();
  EXPECT_GE(metrics_->decode_calls, 5u);
}

TEST_F(EmbedderRuns, AShortTextDoesNotWaitForALongOne) {
  open(story_model(), {.n_ctx = 4096, .n_ubatch = 16, .options = {.n_batch = 16}});
  Stream other(turns_);
  other.take();
  const Running longer = submit({text(2000)});
  wait_until_it_waits();
  const Running shorter = submit({text(4)}, "d");
  other.release();
  shorter.collector->wait();
  EXPECT_LE(shorter.sink->n_batches, 2u);
  embedder_->cancel(longer.task);
  EXPECT_EQ(longer.collector->wait()[0].end->reason, server::EndReason::cancelled);
}

TEST_F(EmbedderRuns, TextsThatFillTheContextWaitForEachOther) {
  open(story_model(), {.n_ctx = 2048, .n_ubatch = 128, .options = {.n_batch = 128}});
  const Texts texts = {text(2048), text(2047, 2), text(2000, 3)};
  expect_results(submit(texts), expected(texts));
}

TEST_F(EmbedderRuns, ClientsTakeTurnsByTokens) {
  open(tiny_bert(), {.options = {.n_batch = 16}});
  Stream other(turns_);
  other.take();
  const Running many = submit(Texts(100, text(16)), "a");
  wait_until_it_waits();
  const Running few = submit(Texts(2, text(16)), "b");
  other.release();
  few.collector->wait();
  EXPECT_LE(few.sink->n_batches, 6u);
  many.collector->wait();
  EXPECT_EQ(metrics_->decode_calls, 102u);
}

TEST_F(EmbedderRuns, TheQueueHasLimits) {
  open(story_model(), {.options = {.n_batch = 64, .queue = {.n_tasks = 3, .n_client_tasks = 2}}});
  Stream other(turns_);
  other.take();
  const std::vector<Running> runs = {submit({text(4)}, "a"), submit({text(5)}, "a")};
  const auto refused = [&](const std::string& client) {
    server::TaskSpec spec = spec_of({text(4)}, client);
    spec.sink = std::make_shared<Collector>(1);
    const auto task = embedder_->submit(std::move(spec));
    EXPECT_FALSE(task.has_value());
    return task ? server::Refusal{} : task.error();
  };
  const server::Refusal own = refused("a");
  EXPECT_TRUE(own.is_clients_own);
  EXPECT_GE(own.retry_after_s, 1);
  const Running third = submit({text(6)}, "b");
  EXPECT_FALSE(refused("c").is_clients_own);
  EXPECT_EQ(metrics_->refused_client, 1u);
  EXPECT_EQ(metrics_->refused_full, 1u);
  other.release();
  for (const Running& run : runs) run.collector->wait();
  third.collector->wait();
  wait_until_idle();
  submit({text(4)}, "c").collector->wait();  // there is room again
}

TEST_F(EmbedderRuns, ACancelledTaskEndsAndOthersGoOn) {
  open(story_model(), {.n_ctx = 4096, .n_ubatch = 16, .options = {.n_batch = 16}});
  Stream other(turns_);
  other.take();
  const Running one = submit(Texts(50, text(2000)), "a"), two = submit({text(20)}, "b");
  embedder_->cancel(one.task);
  other.release();
  expect_results(two, expected({text(20)}));
  for (const auto& ended : one.collector->wait()) EXPECT_EQ(ended.end->reason, server::EndReason::cancelled);
  wait_until_idle();
  EXPECT_EQ(session_->cache().groups().front().n_used_blocks(), 0);
}

TEST_F(EmbedderRuns, ADeadlineIsAnError) {
  open(story_model());
  server::TaskSpec spec = spec_of({text(4), text(5)});
  spec.deadline = server::Clock::now() - std::chrono::seconds(1);
  for (const auto& ended : submit(std::move(spec)).collector->wait()) {
    EXPECT_EQ(ended.end->reason, server::EndReason::failed);
    EXPECT_TRUE(ended.end->is_overloaded);
    EXPECT_NE(ended.end->error->message().find("deadline"), std::string::npos);
  }
}

TEST_F(EmbedderRuns, DrainingEndsTasksThatWait) {
  open(story_model(), {.n_ctx = 4096, .n_ubatch = 16, .options = {.n_batch = 16}});
  Stream other(turns_);
  other.take();
  const Running waiting = submit({text(4)});
  embedder_->drain();
  server::TaskSpec spec = spec_of({text(4)});
  spec.sink = std::make_shared<Collector>(1);
  EXPECT_FALSE(embedder_->submit(std::move(spec)).has_value());
  other.release();
  const auto ended = waiting.collector->wait();
  EXPECT_EQ(ended[0].end->reason, server::EndReason::failed);
  EXPECT_TRUE(ended[0].end->is_overloaded);
  EXPECT_EQ(ended[0].end->error->message(), server::kShuttingDown);
  wait_until_idle();
}

// A task that has begun is completed.
TEST_F(EmbedderRuns, DrainingCompletesWhatHasBegun) {
  open(tiny_bert(), {.options = {.n_batch = 16}});
  const Texts texts(300, text(16));
  const Running run = submit(texts);
  while (metrics_->decode_calls == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  embedder_->drain();
  for (const auto& ended : run.collector->wait()) EXPECT_EQ(ended.end->reason, server::EndReason::eos);
}

TEST_F(EmbedderRuns, StoppingEndsAll) {
  open(story_model(), {.n_ctx = 4096, .n_ubatch = 16, .options = {.n_batch = 16}});
  const Running run = submit(Texts(50, text(2000)));
  while (metrics_->decode_calls == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  embedder_->stop();
  EXPECT_TRUE(embedder_->is_idle());
  EXPECT_TRUE(run.collector->wait().back().end->is_overloaded);
}

TEST_F(EmbedderRuns, ATextThatIsNotFiniteFailsAlone) {
  TinyEncoder tiny("bert");
  tiny.weights["token_embd.weight"][TinyEncoder::kWidth * 7] = INFINITY;
  open(tiny.write("infinite.gguf"));
  const auto ended = submit({{2, 3}, {2, 7, 3}, {2, 8, 3}}).collector->wait();
  EXPECT_EQ(ended[0].end->reason, server::EndReason::eos);
  ASSERT_EQ(ended[1].end->reason, server::EndReason::failed);
  EXPECT_NE(ended[1].end->error->message().find("not finite"), std::string::npos);
  EXPECT_EQ(ended[2].end->reason, server::EndReason::eos);
}

}  // namespace
}  // namespace tessera
