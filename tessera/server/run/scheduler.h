// The scheduler of a model: one thread that owns the session. In each step every sequence that generates gets a token,
// and prompts get what the time target of the step leaves. So the gap between two tokens of a stream has a bound
// whatever others send.
//
// Other threads submit tasks, cancel them, and post commands that run between two steps. Events go to the tasks' sinks
// on their I/O threads, once per step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/thread_pool.h"
#include "tessera/engine/session.h"
#include "tessera/engine/speculative/speculation.h"
#include "tessera/server/run/compute_turns.h"
#include "tessera/server/run/disk_tier.h"
#include "tessera/server/run/outbox.h"
#include "tessera/server/run/slots.h"
#include "tessera/server/run/step_division.h"
#include "tessera/server/run/step_forecast.h"
#include "tessera/server/run/task_runner.h"
#include "tessera/server/storage/slot_file.h"

namespace tessera::server {

struct SchedulerOptions {
  int32_t n_slots = 1;
  int64_t slot_context = 0;          // most tokens of a sequence
  int64_t n_batch = 2048;            // prompt tokens of a step when nothing else runs or waits
  int64_t n_ubatch = 512;            // the same when others wait
  double step_target_ms = 0;         // 0: max(50, 3 steps without prompts)
  double token_ms = 1;               // first guess of the time of a token
  size_t stream_buffer = 256 << 10;  // unsent bytes at which a sequence is paused
  int64_t slow_reader_ms = 30'000;   // without a byte taken: the sequence is cancelled
  int64_t paused_poll_ms = 20;       // between two looks at clients that read too slowly, when nothing can run
  int n_sampling_threads = 1;
  SpeculationOptions speculation{};  // the session has what its extend() adds
  Session* draft = nullptr;          // of the draft model, with n_slots sequences; it must outlive the scheduler
  PredictionHead* head = nullptr;    // of the session; it must outlive the scheduler
  QueueLimits queue{};
  std::shared_ptr<Storage> storage{};  // of slot files and of the disk tier; null: none
  bool always_restores = false;        // read parts from the disk even where computing them is faster
  int64_t disk_delay_ms = 1000;        // between the end of a sequence and the writing of its parts
  int64_t disk_flush_ms = 10'000;      // for the writing of parts that are not on the disk when the thread ends
};

/// A slot as GET /slots shows it.
struct SlotView {
  int32_t id = 0;
  const Sequence* sequence = nullptr;   // null: idle
  std::optional<PastSequence> shown{};  // that sequence, or the last one; nothing: the slot was never used
  int64_t n_last = 0;                   // tokens of the last sequence of an idle slot
  bool is_paused = false;
  bool is_restoring = false;
};

/// A slot that was saved to a file or restored from one.
struct SlotFileReport {
  int64_t n_tokens = 0;
  uint64_t n_bytes = 0;
  double ms = 0;  // since the slot was idle, or since the file was opened
};
/// Called once, on the scheduler's or the disk's thread.
using SlotFileDone = std::function<void(Result<SlotFileReport>)>;

/// The things that the cache had.
struct ClearedCache {
  int64_t n_blocks = 0;
  uint64_t n_files = 0;
};

class Scheduler final : public TaskRunner {
 public:
  /// Starts the thread, which computes in turns with others. Session, tokenizer, metrics and turns must outlive the
  /// scheduler; the session is its own from now on.
  /// Errors: those of Slots::create() and ThreadPool::create(); out_of_memory (the system refuses a thread).
  static Result<std::unique_ptr<Scheduler>> create(Session& session, const SchedulerOptions& options,
                                                   ModelMetrics& metrics, ComputeTurns& turns, PostToIo post_to_io);
  /// Calls stop().
  ~Scheduler() override;

  const SchedulerOptions& options() const { return options_; }

  /// As TaskRunner::submit().
  std::expected<std::shared_ptr<Task>, Refusal> submit(TaskSpec spec);
  /// Calls `command` on the scheduler's thread between two steps, with the slots as they are.
  void inspect(std::function<void(std::span<const SlotView>)> command);
  /// Lets a slot forget its last sequence once it is idle, and calls `done` with the number of its tokens. The prefix
  /// cache keeps them.
  void erase(int32_t slot, std::function<void(int64_t n_erased)> done);
  /// Saves the last tokens of a slot and their state, once it is idle, as a file in the storage's directory of slots.
  /// Errors: unsupported (there is no such directory); io; out_of_memory.
  void save_slot(int32_t slot, std::string file, SlotFileDone done);
  /// Gives a slot the tokens of such a file, once it is idle. Errors: also not_found, and those of read_slot_file() and
  /// Slots::restore(). After an error the slot is as it was.
  void restore_slot(int32_t slot, std::string file, SlotFileDone done);
  /// Empties the prefix cache and its disk tier. `done` is called on the scheduler's or the disk's thread.
  void clear_cache(std::function<void(ClearedCache)> done);

  void drain() override;

 private:
  struct Row {
    Slot* slot;
    int64_t index;  // of the row of logits; the rows after its guesses follow
  };
  // Rows of logits by which tokens of a prompt are scored.
  struct ScoredRows {
    Slot* slot;
    int64_t first_row;
    int64_t n;
  };
  struct Chunk {
    Slot* slot;
    int64_t n_tokens;
    bool is_of_prompt;
  };

  Scheduler(Session& session, const SchedulerOptions& options, ModelMetrics& metrics, ComputeTurns& turns,
            PostToIo post_to_io, std::unique_ptr<Slots> slots);

  // --- scheduler.cpp
  void run() override;
  bool can_run() const;
  void wait_for_mail();
  void read_mail(Mailbox::Mail mail);
  void drop_ended();
  bool drop_if_over(Slot& slot, Clock::time_point now);
  void watch_reader(Slot& slot);
  void admit();
  bool may_start(const FairQueue::Waiting& waiting) const;
  void start(const FairQueue::Waiting& waiting);
  void begin(Slot& slot);
  bool preempt_for_priority();
  void preempt(Slot& slot, PreemptionReason reason);
  void end_sequence(Slot& slot);
  void release_slot(Slot& slot);
  void end_waiting(const FairQueue::Waiting& waiting, EndReason reason, std::string_view error);
  void finish_sequence(Sequence& sequence, int64_t n_stored);
  void flush_disk();
  void send(const std::shared_ptr<Task>& task, TaskEvent event);
  void report_queue();
  void publish_gauges();

  // --- slot_files.cpp
  using SlotCommand = std::function<void(Slot&)>;
  void set_storage();
  void when_idle(int32_t slot, SlotCommand command);
  void run_slot_commands();
  void write_slot_file(const Slot& slot, const std::string& file, const SlotFileDone& done);
  Result<SavedSlot> read_slot_file(const std::string& name) const;
  void end_slot_job();

  Result<> create_speculators();
  void keep_text(const Sequence& sequence);

  // --- step.cpp
  bool plan_step();
  void clear_step();
  void add_decoding();
  void guess(Slot& slot, int64_t n_decoding);
  void plan_prefill(const StepWork& decoding);
  std::vector<StepPrompt> step_prompts(std::span<Slot* const> slots) const;
  void add_chunk(const Chunk& chunk);
  void run_step();
  Result<> decode();
  bool make_room();
  bool drop_guesses();
  void try_each_alone();
  void finish_step(double step_ms);
  void score_prompts();
  void sample_rows();
  void for_each_row(int64_t n, const std::function<void(int64_t i, size_t thread)>& work);
  bool accept_token(Row& row);
  void accept_forced(Sequence& sequence);
  bool has_next_row(Row& row);
  void note_guesses(const Slot& slot);
  bool has_place(const Sequence& sequence) const;
  void fit_context(Slot& slot);
  void note_progress(const Chunk& chunk);
  double target_ms() const;

  Session& session_;
  const SchedulerOptions options_;
  ComputeTurns::Party turn_;
  Outbox outbox_;

  // Of the thread.
  std::unique_ptr<Slots> slots_;
  StepForecast forecast_;
  StepTimes step_times_;                                        // of steps without prompts
  TextIndex texts_;                                             // of sequences that have ended, for guesses
  bool has_free_slot_ = false;                                  // since the last admission
  double row_work_ = 0;                                         // of logits, in tokens of a prompt
  double decode_ms_ = 0;                                        // of a step without prompts, averaged
  std::vector<std::pair<int32_t, SlotCommand>> slot_commands_;  // that wait for their slots, in order
  std::unique_ptr<DiskTier> disk_;                              // null: none
  SlotFileLimits slot_file_limits_{};                           // if there is storage
  Clock::time_point now_{};
  Clock::time_point next_queue_report_{};
  std::unique_ptr<ThreadPool> sampling_threads_;  // null: one thread
  std::vector<sample::TopLogProbs> top_buffers_;  // by sampling thread

  // Of the present step.
  Batch batch_;
  StepWork work_;
  std::vector<Chunk> chunks_;
  std::vector<Row> rows_;
  std::vector<ScoredRows> scored_;
  int64_t n_rows_ = 0;       // of both, and of guesses
  bool may_guess_ = true;    // false: the cache has no room for guesses
  bool was_narrow_ = false;  // there were more guesses
};

}  // namespace tessera::server
