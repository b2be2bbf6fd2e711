// The engine's threads. run() calls one function on n threads at once (the caller is thread 0) and returns
// when all are done; inside, the threads meet at barriers and may share out chunks of work. Used by the CPU
// backend, the converters and the trainer; one run at a time, and none from inside a run.
//
// A barrier is an epoch per thread on a cache line of its own: arriving is one store, waiting is reading the
// others'. Whoever waits too long sleeps in the kernel, so more threads than CPUs are slow but never stuck.
// One thread costs a few nanoseconds per run and never touches the kernel.
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

enum class Placement {
  shared,  // every thread may use every CPU of the mask, or of its node where there is a NUMA policy
  strict,  // thread i stays on the i-th CPU of these, round robin
};

enum class Priority { low, normal, medium, high, realtime };

struct ThreadPoolOptions {
  int n_threads = 1;  // with the caller of run(); 1 to ThreadPool::kMaxThreads
  CpuMask cpus = {};  // empty: the threads inherit the CPUs of the creating thread
  NumaPolicy numa = NumaPolicy::none;
  Placement placement = Placement::shared;
  Priority priority = Priority::normal;
  int poll = 50;  // 0 to 100: how long idle threads spin for the next run (4 us per level) before they sleep
  bool start_paused = false;
};

class ThreadContext;

struct RunOptions {
  int n_threads = 0;                    // 0: all; more than the pool has: all
  const CancelToken* cancel = nullptr;  // polled by the work through its ThreadContext
};

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 512;

  /// Starts the threads. Errors: an option out of its range, no usable CPU in the mask, a thread is refused.
  static Result<std::unique_ptr<ThreadPool>> create(const ThreadPoolOptions& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return n_threads_; }

  /// What of the placement or priority could not be had (the pool works without); "" if nothing.
  const std::string& warning() const { return warning_; }

  /// Calls work once on each of n threads and returns when all calls have returned. What the caller wrote
  /// before is visible to the work, what the work wrote is visible after. The work does not throw. Resumes a
  /// paused pool. Where the options leave thread 0 fewer CPUs than the pool's creator has, the caller stays on these
  /// for the run (3 system calls, about 10 us); its priority is its own.
  void run(FunctionRef<void(ThreadContext&)> work, const RunOptions& options = {}) noexcept;

  /// Idle threads sleep at once, without spinning, until resume() or the next run(). Safe from any thread.
  void pause() { paused_.store(true); }
  void resume() { paused_.store(false); }

 private:
  friend class ThreadContext;
  using Nanoseconds = std::chrono::nanoseconds;

  // Where threads sleep until a condition holds that others make true: those store first, then ring if
  // somebody sleeps. All is sequentially consistent: they see the sleeper, or the sleeper sees the condition.
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
    alignas(64) std::atomic<uint64_t> epoch{0};  // barriers reached; written by its thread
    std::atomic<int> cpu{-1};                    // where its thread was then: a hint for those who wait
    alignas(64) std::atomic<uint64_t> start{0};  // first epoch of the run to join; written by run()
    Doorbell bell;                               // where its thread sleeps between runs
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
  const std::vector<CpuMask> cpus_;  // of each thread; none is empty
  const bool places_caller_;         // for each run
  const Priority priority_;
  const Nanoseconds idle_spin_;
  const Nanoseconds barrier_spin_;
  std::string warning_;

  std::unique_ptr<Slot[]> slots_;
  std::vector<std::thread> threads_;
  Job job_;                             // of the current run; written while all its threads wait for their start
  uint64_t epoch_ = 1;                  // of thread 0 between runs
  std::array<bool, 2> cancelled_at_{};  // thread 0's answer at even and odd epochs
  std::array<ChunkCounter, 2> chunks_;  // of even and odd epochs
  alignas(64) Doorbell barrier_bell_;   // where threads of a run sleep for the others
  alignas(64) std::atomic<bool> paused_;
};

/// What a thread of a run knows of it. All threads of a run pass the same barriers in the same order.
class ThreadContext {
 public:
  const int index;  // 0 is the thread that called run()
  const int count;

  /// Returns when all threads have called it; what they wrote before is visible after.
  void barrier();

  /// A barrier with one answer for all, sampled as thread 0 arrives: true when the run is to stop.
  [[nodiscard]] bool barrier_and_check_cancel();

  /// Whether the run is to stop. Threads may see it at different times: whoever stops early still goes on to
  /// the next barrier, where all agree.
  bool cancelled() const { return cancel_ != nullptr && cancel_->cancelled(); }

  /// 0, 1, 2, ...: each number goes to one thread only. Every barrier starts anew at 0.
  int64_t next_chunk() {
    std::atomic<int64_t>& next = pool_.chunks_[epoch_ & 1].next;
    if (count > 1) return next.fetch_add(1, std::memory_order_relaxed);
    const int64_t chunk =
        next.load(std::memory_order_relaxed);  // alone: a locked addition would cost more than small work
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
