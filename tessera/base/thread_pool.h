// The engine's threads. run() calls one function on n threads at once (the caller is thread 0) and returns when all
// calls have returned. Inside, the threads can meet at barriers and share chunks of work. Used by the CPU backend, the
// converters and the trainer. Only one run at a time is allowed, and no run may start from inside a run.
//
// A barrier consists of one epoch counter per thread on separate cache lines. Arriving is one store, and waiting reads
// the other counters. A thread that waits too long sleeps in the kernel, so more threads than CPUs are slow but make
// progress. With one thread, a run costs a few nanoseconds and makes no system call.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
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

struct ThreadPoolOptions {
  int n_threads = 1;  // including the caller of run(); 1 to ThreadPool::kMaxThreads
  CpuMask cpus = {};  // empty: the threads inherit the CPUs of the creating thread
  NumaPolicy numa = NumaPolicy::none;
  Affinity affinity = Affinity::shared;
  Priority priority = Priority::normal;
  int poll = 50;  // 0 to 100: how long idle threads spin for the next run (4 us per level) before they sleep
  bool start_paused = false;
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
  /// are visible to the work, and writes of the work are visible afterwards. The work must not throw. Resumes a paused
  /// pool. If the options give thread 0 fewer CPUs than the pool's creator has, the caller is restricted to these
  /// during the run (3 system calls, about 10 us). The caller's priority does not change.
  void run(FunctionRef<void(ThreadContext&)> work, const RunOptions& options = {}) noexcept;

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

  ThreadPool(const ThreadPoolOptions& options, std::vector<CpuMask> cpus, bool places_caller, bool has_cpu_each);
  void work_until_stopped(int index);
  static void start_thread(Slot& slot, uint64_t epoch);
  uint64_t wait_for_start(Slot& slot, uint64_t previous);
  void set_up_thread(int index);
  void arrive(int index, int n_threads, uint64_t epoch);
  void wait_for_all(int n_threads, uint64_t epoch);
  const Slot* find_late(int n_threads, uint64_t epoch) const;
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
};

/// The view of a run from one of its threads. All threads of a run must pass the same barriers in the same order.
class ThreadContext {
 public:
  const int index;  // 0 is the thread that called run()
  const int count;

  /// Returns when all threads have called it. Writes before the call are visible to all threads after it.
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
