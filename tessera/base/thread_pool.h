// The engine's threads. run() calls one function on n threads at once (the caller is thread 0) and returns when all
// calls have returned. Inside, the threads can meet at barriers and share chunks of work. Used by the CPU backend, the
// converters and the trainer. Several threads may call run(): their runs take turns, in the order of the calls. No run
// may start from inside a run.
//
// A barrier consists of one epoch counter per thread on separate cache lines. Arriving is one store, and waiting reads
// the other counters. A thread that waits too long sleeps in the kernel, so more threads than CPUs are slow but make
// progress. With one thread, a run costs a few nanoseconds and makes no system call.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/base/cpu_mask.h"
#include "tessera/base/function_ref.h"
#include "tessera/base/numa.h"
#include "tessera/base/result.h"

namespace tessera {

enum class Affinity {
  shared,  // every thread may use every CPU of the mask, or of its node under a NUMA policy
  strict,  // thread i stays on the i-th of these CPUs, round robin
};

enum class Priority { low, normal, medium, high, realtime };

class ThreadPool;

struct ThreadPoolOptions {
  int n_threads = 1;  // including the caller of run(); 1 to ThreadPool::kMaxThreads
  CpuMask cpus = {};  // empty: the threads inherit the CPUs of the creating thread
  NumaPolicy numa = NumaPolicy::none;
  Affinity affinity = Affinity::shared;
  Priority priority = Priority::normal;
  int poll = 50;  // 0 to 100: how long idle threads spin for the next run (4 us per level) before they sleep
  bool start_paused = false;
  ThreadPool* pool = nullptr;  // for ThreadGroup: takes n_threads of this pool, which outlives it, in place of others
};

class ThreadContext;

struct RunOptions {
  int n_threads = 0;                    // 0 or more than the pool has: all threads
  const CancelToken* cancel = nullptr;  // polled by the work through its ThreadContext
};

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 512;

  /// Starts the threads. Errors: an option out of its range, no usable CPU in the mask, a thread that cannot be
  /// started.
  static Result<std::unique_ptr<ThreadPool>> create(const ThreadPoolOptions& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return n_threads_; }

  /// Thread affinity or priority that could not be applied; "" if none. Not fatal: the pool works without it.
  const std::string& warning() const { return warning_; }

  /// Calls work once on each of n threads and returns when all calls have returned. Writes of the caller before run()
  /// are visible to the work, and writes of the work are visible afterwards. Safe from any thread outside a run. If the
  /// work throws on a thread, the others end at their next barrier, and run() throws the first exception. Resumes a
  /// paused pool. If the options give thread 0 fewer CPUs than the pool's creator has, the caller is restricted to
  /// these during the run (3 system calls, about 10 us). The caller's priority does not change.
  void run(FunctionRef<void(ThreadContext&)> work, const RunOptions& options = {});

  /// Makes idle threads sleep at once, without spinning, until resume() or the next run(). Safe from any thread.
  void pause() { paused_.store(true); }
  void resume() { paused_.store(false); }

 private:
  friend class ThreadContext;
  using Nanoseconds = std::chrono::nanoseconds;

  // Lets threads sleep until another thread makes a condition true. That thread first stores, then rings if there are
  // sleepers. All accesses are sequentially consistent: either it sees the sleeper, or the sleeper sees the condition.
  class Doorbell {
   public:
    template <class Condition>
    void sleep_until(Condition holds);
    bool has_sleepers() const { return n_sleepers_.load() != 0; }
    void ring();

   private:
    std::atomic<uint32_t> n_sleepers_{0};
    std::atomic<uint32_t> n_rings_{0};
  };

  struct Slot {
    alignas(64) std::atomic<uint64_t> epoch{0};  // number of barriers reached; written by its thread
    std::atomic<int> cpu{-1};                    // CPU of its thread at that time, a hint for waiting threads
    alignas(64) std::atomic<uint64_t> start{0};  // first epoch of the run to join; written by run()
    Doorbell bell;                               // its thread sleeps here between runs
    std::atomic<uint64_t> finished{0};           // start of the last run that its thread has left
    std::string warning;
  };

  struct Job {
    const FunctionRef<void(ThreadContext&)>* work = nullptr;
    int n_threads = 0;
    const CancelToken* cancel = nullptr;
  };

  struct alignas(64) ChunkCounter {
    std::atomic<int64_t> next{0};
  };

  // The right to run, given in the order of asking. A mutex could give it to the same thread again and again.
  class Turns {
   public:
    void take();
    void give_back();

   private:
    std::atomic<uint32_t> n_asked_{0};
    std::atomic<uint32_t> n_done_{0};
  };
  class Turn;

  ThreadPool(const ThreadPoolOptions& options, std::vector<CpuMask> cpus, bool places_caller, bool has_cpu_each);
  void work_until_stopped(int index);
  static void start_thread(Slot& slot, uint64_t epoch);
  uint64_t wait_for_start(Slot& slot, uint64_t previous);
  void set_up_thread(int index);
  void arrive(int index, int n_threads, uint64_t epoch);
  void wait_for_all(int n_threads, uint64_t epoch);
  const Slot* find_late(int n_threads, uint64_t epoch) const;
  void call(const FunctionRef<void(ThreadContext&)>& work, ThreadContext& context) noexcept;
  void break_run(std::exception_ptr failure);
  [[noreturn]] void end_broken_run(int n_threads, uint64_t start);
  static bool is_on_this_cpu(const Slot& slot);

  const int n_threads_;
  const std::vector<CpuMask> cpus_;  // per thread; none is empty
  const bool places_caller_;         // true: run() changes the affinity of its caller
  const Priority priority_;
  const Nanoseconds idle_spin_;
  const Nanoseconds barrier_spin_;
  std::string warning_;

  std::unique_ptr<Slot[]> slots_;
  std::vector<std::thread> threads_;
  Job job_;                             // of the current run; written while all its threads wait for their start
  uint64_t epoch_ = 1;                  // thread 0's epoch between runs
  std::array<bool, 2> cancelled_at_{};  // thread 0's answer at even and odd epochs
  std::array<ChunkCounter, 2> chunks_;  // for even and odd epochs
  alignas(64) Doorbell barrier_bell_;   // threads of a run sleep here while they wait for the others
  alignas(64) std::atomic<bool> paused_;
  std::atomic<bool> is_broken_{false};  // work of the current run has thrown
  std::mutex failure_mutex_;
  std::exception_ptr failure_;  // the first of the current run
  alignas(64) Turns turns_;
};

/// Threads for the runs of one user: all of a pool of its own, or the first n of a pool that others use too.
class ThreadGroup {
 public:
  /// Errors: those of ThreadPool::create(); invalid_argument (options.pool has fewer than options.n_threads).
  static Result<ThreadGroup> create(const ThreadPoolOptions& options);

  int size() const { return n_threads_; }
  /// See ThreadPool::warning().
  const std::string& warning() const { return pool_->warning(); }
  /// As ThreadPool::run(), on all threads of the group.
  void run(FunctionRef<void(ThreadContext&)> work, const CancelToken* cancel = nullptr) {
    pool_->run(work, {.n_threads = n_threads_, .cancel = cancel});
  }

 private:
  ThreadGroup(std::unique_ptr<ThreadPool> own, ThreadPool* pool, int n_threads)
      : own_(std::move(own)), pool_(pool), n_threads_(n_threads) {}

  std::unique_ptr<ThreadPool> own_;  // null: the pool is another's
  ThreadPool* pool_;
  int n_threads_;
};

/// The view of a run from one of its threads. All threads of a run must pass the same barriers in the same order.
class ThreadContext {
 public:
  const int index;  // 0 is the thread that called run()
  const int count;

  /// Returns when all threads have called it. Writes before the call are visible to all threads after it. Throws if the
  /// work of another thread has thrown: the work must not catch that exception.
  void barrier();

  /// A barrier that gives all threads the same answer, sampled when thread 0 arrives: true if the run should stop.
  [[nodiscard]] bool barrier_and_check_cancel();

  /// True if the run should stop. Threads may observe the change at different times. A thread that stops early must
  /// still reach the next barrier, where all threads agree.
  bool cancelled() const { return cancel_ != nullptr && cancel_->cancelled(); }

  /// Returns 0, 1, 2, ... Each number is given to one thread only. Counting restarts at 0 after every barrier.
  int64_t next_chunk() {
    std::atomic<int64_t>& next = pool_.chunks_[epoch_ & 1].next;
    if (count > 1) return next.fetch_add(1, std::memory_order_relaxed);
    const int64_t chunk =
        next.load(std::memory_order_relaxed);  // one thread: an atomic addition would cost more than a small chunk
    next.store(chunk + 1, std::memory_order_relaxed);
    return chunk;
  }

 private:
  friend class ThreadPool;
  ThreadContext(ThreadPool& pool, int index, int count, const CancelToken* cancel, uint64_t epoch)
      : index(index), count(count), pool_(pool), cancel_(cancel), epoch_(epoch) {}

  ThreadPool& pool_;
  const CancelToken* cancel_;
  uint64_t epoch_;
};

}  // namespace tessera
