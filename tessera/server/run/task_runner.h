// A thread that computes tasks, as other threads see it: they submit tasks, cancel them and end all. The scheduler and
// the embedder of a model are such threads.
#pragma once

#include <atomic>
#include <expected>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/base/function_ref.h"
#include "tessera/server/metrics.h"
#include "tessera/server/run/fair_queue.h"
#include "tessera/server/run/mailbox.h"

namespace tessera::text {
class Tokenizer;
}

namespace tessera::server {

class TaskRunner {
 public:
  virtual ~TaskRunner() = default;
  TaskRunner(const TaskRunner&) = delete;
  TaskRunner& operator=(const TaskRunner&) = delete;

  // --- from any thread

  /// Takes a place in the queue for a task of a client. See Mailbox::reserve().
  std::expected<Mailbox::Place, Refusal> reserve(const std::string& client);
  /// Gives a task to the thread, or refuses it. Its sink then gets an end event for each sequence.
  std::expected<std::shared_ptr<Task>, Refusal> submit(TaskSpec spec);
  /// Ends a task soon: what is computed for others as well is completed.
  void cancel(const std::shared_ptr<Task>& task);
  /// Takes no more tasks, and ends those that wait.
  virtual void drain() = 0;
  /// Ends all sequences now, with an error.
  void stop_all();
  /// Ends all sequences and joins the thread. Nothing more is posted to I/O threads. Destructors of derived classes
  /// call it.
  void stop();
  bool is_idle() const { return n_open_.load(std::memory_order_acquire) == 0; }
  int64_t n_waiting() const { return mailbox_.n_waiting(); }
  /// Returns by how many milliseconds the present step exceeds its forecast; 0 between steps.
  double overdue_ms() const;

 protected:
  /// The tokenizer must outlive this.
  TaskRunner(const QueueLimits& limits, ModelMetrics& metrics, const text::Tokenizer& tokenizer)
      : mailbox_(limits), metrics_(metrics), tokenizer_(tokenizer) {}

  /// Starts the thread, which calls run(). Error: out_of_memory (the system refuses a thread).
  Result<> start_thread();
  virtual void run() = 0;

  Mailbox& mailbox() { return mailbox_; }
  ModelMetrics& metrics() { return metrics_; }
  bool is_stopping() const { return is_stopping_; }
  bool ends_all() const { return ends_all_; }
  /// A job beside the tasks, for which the thread does not end. Called by any thread.
  void begin_job() { n_open_.fetch_add(1, std::memory_order_acq_rel); }
  void end_job() { n_open_.fetch_sub(1, std::memory_order_acq_rel); }

  // --- for the thread only

  FairQueue& queue() { return queue_; }
  /// Puts the first sequences of tasks that have just come into the queue.
  void queue_tasks(std::span<const std::shared_ptr<Task>> tasks, Clock::time_point now);
  /// Puts the next sequence of a task into the queue, if there is one. `arrival`: as in FairQueue::Waiting.
  void queue_next(const std::shared_ptr<Task>& task, Clock::time_point since, uint64_t arrival);
  /// Whether a task was cancelled since the last call.
  bool take_cancels() { return has_cancels_.exchange(false); }
  /// To be called when a sequence of a task begins: the task no longer counts as waiting.
  void leave_queue(Task& task, Clock::time_point now);
  /// A sequence of a task has sent its end.
  void close_one(Task& task);
  /// Computes something for these tasks: stops when nobody wants it any more, and is overdue after `forecast_ms`.
  Result<> compute(std::vector<std::shared_ptr<Task>> tasks, double forecast_ms,
                   FunctionRef<Result<>(const CancelToken&)> step);

 private:
  void count(const Refusal& refusal);
  void cancel_step(bool ends_it);
  void set_running(std::vector<std::shared_ptr<Task>> tasks);

  Mailbox mailbox_;
  ModelMetrics& metrics_;
  const text::Tokenizer& tokenizer_;
  FairQueue queue_;  // of the thread
  std::atomic<uint64_t> n_ids_{0};
  std::atomic<int64_t> n_open_{0};  // tasks and jobs
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> ends_all_{false};
  std::atomic<bool> has_cancels_{false};
  std::atomic<int64_t> due_ns_{0};  // of the clock; 0: between steps
  CancelToken cancel_step_;
  std::mutex running_mutex_;
  std::vector<std::shared_ptr<Task>> running_;  // for which something is being computed
  std::thread thread_;
};

}  // namespace tessera::server
