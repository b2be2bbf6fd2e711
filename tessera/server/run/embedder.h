// The runner of embeddings and scores of a model: one thread that owns a session for them. Texts of all clients wait in
// a fair queue and share batches. Batches take turns with the other parties of the process that compute. While one of
// them streams, a batch keeps to the time target of a step.
//
// Tasks are those of the scheduler: a sequence is a text, and its end carries the result. The bits of a result do not
// depend on the other texts of a batch.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/engine/embedding.h"
#include "tessera/server/metrics.h"
#include "tessera/server/run/compute_turns.h"
#include "tessera/server/run/fair_queue.h"
#include "tessera/server/run/mailbox.h"
#include "tessera/server/run/outbox.h"
#include "tessera/server/run/sequence.h"
#include "tessera/server/run/step_forecast.h"

namespace tessera::server {

struct EmbedderOptions {
  int64_t n_batch = 512;      // tokens of a batch; a text that is computed at once may be longer
  double step_target_ms = 0;  // of a batch while another party streams; 0: 50
  double token_ms = 1;        // first guess of the time of a token
  QueueLimits queue{};
};

class Embedder {
 public:
  /// Starts the thread. The session has the options of embedding_session() for `use` and is the embedder's from now on.
  /// Session, metrics and turns must outlive the embedder. Errors: out_of_memory (the system refuses a thread).
  static Result<std::unique_ptr<Embedder>> create(Session& session, const EmbeddingUse& use,
                                                  const EmbedderOptions& options, ModelMetrics& metrics,
                                                  ComputeTurns& turns, PostToIo post_to_io);
  /// Calls stop().
  ~Embedder();

  const EmbeddingUse& use() const { return use_; }
  /// The most tokens of a text.
  int64_t n_ctx() const { return session_.n_ctx(); }

  /// Gives a task to the embedder, or refuses it. Its prompts have 1 to n_ctx() tokens. It wants_scores only if use()
  /// has them. The sink gets an end event for each text.
  std::expected<std::shared_ptr<Task>, Refusal> submit(TaskSpec spec);
  /// Ends a task soon: a batch whose tasks are all cancelled stops.
  void cancel(const std::shared_ptr<Task>& task);

  /// Takes no more tasks, and ends those that wait.
  void drain();
  /// Ends all texts now, with an error.
  void stop_all();
  /// Ends all texts and joins the thread. Nothing more is posted to I/O threads.
  void stop();
  bool is_idle() const { return n_tasks_.load(std::memory_order_acquire) == 0; }
  /// Milliseconds beyond its forecast that the present batch takes; 0 between batches.
  double overdue_ms() const;

 private:
  /// A text that is being computed.
  struct Text {
    std::shared_ptr<Sequence> sequence;
    int32_t id;          // of its sequence in the session
    int64_t n_done = 0;  // tokens
    TextPooler pooler;

    int64_t n_pending() const { return sequence->n_tokens() - n_done; }
  };
  struct Chunk {
    size_t text;  // index
    int64_t n_tokens;
    int64_t n_rows = 0;
  };

  Embedder(Session& session, const EmbeddingUse& use, const EmbedderOptions& options, ModelMetrics& metrics,
           ComputeTurns& turns, PostToIo post_to_io);

  void run();
  void wait_for_mail();
  void read_mail(const Mailbox::Mail& mail);
  void queue_next(const std::shared_ptr<Task>& task, Clock::time_point since, uint64_t arrival);
  void drop_ended();
  bool is_over(const TaskSpec& spec) const;
  void end_over(Sequence& sequence) const;
  void end_waiting(const FairQueue::Waiting& waiting);
  void end_texts();
  void finish(Sequence& sequence);

  bool plan_batch();
  int64_t chunk_size(int64_t position, int64_t n_pending) const;
  StepWork work_with(int64_t position, int64_t n_tokens) const;
  void admit();
  bool admit_next();
  void add_chunk(size_t text, int64_t n_tokens);
  void run_batch();
  Result<> decode();
  void try_each_alone();
  void finish_batch();
  void set_running(bool is_running);

  Session& session_;
  const EmbeddingUse use_;
  const EmbedderOptions options_;
  const int64_t n_batch_;  // at most a micro-batch, for whose rows the session has room
  const bool is_causal_;
  ModelMetrics& metrics_;
  ComputeTurns::Party turn_;
  Outbox outbox_;
  Mailbox mailbox_;
  std::atomic<uint64_t> n_ids_{0};
  std::atomic<int64_t> n_tasks_{0};
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> ends_all_{false};
  std::atomic<bool> drains_{false};
  std::atomic<int64_t> batch_due_ns_{0};  // of the clock; 0: between batches

  // Of the thread.
  FairQueue queue_;
  StepForecast forecast_;
  std::vector<Text> texts_;
  std::vector<int32_t> free_ids_;
  uint64_t n_batches_ = 0;
  int64_t n_stored_ = 0;  // room that the texts take in the session's cache, in tokens
  Clock::time_point now_{};

  // Of the present batch.
  Batch batch_;
  StepWork work_;
  std::vector<Chunk> chunks_;
  size_t n_started_ = 0;     // texts that need further batches
  bool is_bounded_ = false;  // by the time target
  CancelToken cancel_batch_;
  std::mutex running_mutex_;
  std::vector<std::shared_ptr<Task>> running_;  // tasks in the batch that is being computed

  std::thread thread_;
};

}  // namespace tessera::server
