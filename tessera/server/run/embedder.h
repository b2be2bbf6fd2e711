// The runner of embeddings and scores of a model: one thread that owns a session for them. Texts of all clients wait in
// a fair queue and share batches. Batches take turns with the other parties of the process that compute. While one of
// them streams, a batch keeps to the time target of a step.
//
// Tasks are those of the scheduler: a sequence is a text, and its end carries the result. The bits of a result do not
// depend on the other texts of a batch.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "tessera/engine/embedding.h"
#include "tessera/server/run/compute_turns.h"
#include "tessera/server/run/outbox.h"
#include "tessera/server/run/sequence.h"
#include "tessera/server/run/step_forecast.h"
#include "tessera/server/run/task_runner.h"

namespace tessera::server {

struct EmbedderOptions {
  int64_t n_batch = 512;      // tokens of a batch; a text that is computed at once may be longer
  double step_target_ms = 0;  // of a batch while another party streams; 0: 50
  double token_ms = 1;        // first guess of the time of a token
  QueueLimits queue{};
};

class Embedder final : public TaskRunner {
 public:
  /// Starts the thread. The session has the options of embedding_session() for `use` and is the embedder's from now on.
  /// Session, metrics and turns must outlive the embedder. Errors: out_of_memory (the system refuses a thread).
  static Result<std::unique_ptr<Embedder>> create(Session& session, const EmbeddingUse& use,
                                                  const EmbedderOptions& options, ModelMetrics& metrics,
                                                  ComputeTurns& turns, PostToIo post_to_io);
  /// Calls stop().
  ~Embedder() override;

  const EmbeddingUse& use() const { return use_; }
  /// The most tokens of a text.
  int64_t n_ctx() const { return session_.n_ctx(); }

  /// Like TaskRunner::submit(). Each prompt has 1 to n_ctx() tokens. A task may want scores only if use() has them.
  using TaskRunner::submit;
  void drain() override;

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

  void run() override;
  void wait_for_mail();
  void read_mail(const Mailbox::Mail& mail);
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
  void add_chunk(size_t index, int64_t n_tokens);
  void run_batch();
  Result<> decode();
  void try_each_alone();
  void finish_batch();

  Session& session_;
  const EmbeddingUse use_;
  const EmbedderOptions options_;
  const int64_t n_batch_;  // at most a micro-batch, for whose rows the session has room
  const bool is_causal_;
  ComputeTurns::Party turn_;
  Outbox outbox_;
  std::atomic<bool> drains_{false};

  // Of the thread.
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
};

}  // namespace tessera::server
