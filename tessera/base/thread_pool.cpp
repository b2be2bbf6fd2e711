#include "tessera/base/thread_pool.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "tessera/base/index.h"

namespace tessera {

namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr nanoseconds kSpinPerPollLevel{4'000};
constexpr nanoseconds kBarrierSpin{200'000};
constexpr nanoseconds kSpinWithoutYield{10'000};
constexpr nanoseconds kBrokenRunPoll{50'000};
constexpr uint64_t kStop = UINT64_MAX;

// Ends the work of a thread at a barrier after that of another has thrown.
struct BrokenBarrier {};

void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until the condition holds. Returns false if it did not within the limit. Most iterations are plain loads: each
// PAUSE costs up to 140 cycles, and a long series of them makes a hypervisor deschedule the CPU. On a busy machine the
// awaited thread may be queued behind this one on the same CPU, so this function yields between rounds (of about 1 us).
// It yields at once if that is known, otherwise after a while. Without the yield, two threads that share a CPU would
// spin for the whole limit at every barrier.
template <class Condition, class Blocking>
bool spin_until(Condition holds, Blocking blocks_the_other, nanoseconds limit) {
  if (holds()) return true;
  if (limit == nanoseconds::zero()) return false;
  std::optional<steady_clock::time_point> start;
  while (true) {
    for (int i = 0; i < 256; ++i) {
      if (holds()) return true;
      if (i % 16 == 15) relax_cpu();
    }
    const auto now = steady_clock::now();
    if (!start) start = now;
    if (now - *start >= limit) return false;
    if (now - *start >= kSpinWithoutYield || blocks_the_other()) std::this_thread::yield();
  }
}

std::string_view to_string(Priority priority) {
  switch (priority) {
    case Priority::low:
      return "low";
    case Priority::normal:
      return "normal";
    case Priority::medium:
      return "medium";
    case Priority::high:
      return "high";
    case Priority::realtime:
      return "realtime";
  }
  return "unknown";
}

// Sets the calling thread's priority. Returns errno's value on failure. Only `realtime` leaves the fair scheduler,
// because a spinning real-time thread starves all other threads on its CPU.
int set_priority(Priority priority) {
  if (priority == Priority::normal) return 0;
  if (priority == Priority::realtime) {
    sched_param parameter{};
    parameter.sched_priority = 40;
    return ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &parameter);
  }
  const int nice = priority == Priority::low ? 10 : priority == Priority::medium ? -5 : -10;
  // On Linux, process 0 means the calling thread here.
  return ::setpriority(PRIO_PROCESS, 0, nice) == 0 ? 0 : errno;
}

// One CPU for each thread, round robin among the CPUs that it shares with its neighbours.
std::vector<CpuMask> one_cpu_each(const std::vector<CpuMask>& shared) {
  std::vector<CpuMask> own(shared.size());
  for (size_t i = 0, n_before = 0; i < shared.size(); ++i) {
    n_before = i > 0 && shared[i] == shared[i - 1] ? n_before + 1 : 0;
    const std::vector<int> cpus = shared[i].cpus();
    own[i].add(cpus[n_before % cpus.size()]);
  }
  return own;
}

// True if no threads have to share a CPU. Consecutive threads with equal masks are neighbours.
bool has_cpu_each(const std::vector<CpuMask>& shared) {
  for (size_t begin = 0, end = 0; begin < shared.size(); begin = end) {
    while (end < shared.size() && shared[end] == shared[begin]) ++end;
    if (end - begin > to_size(shared[begin].count())) return false;
  }
  return true;
}

// Restricts the calling thread to some CPUs during the lifetime of this object.
class CallerPlacement {
 public:
  explicit CallerPlacement(const CpuMask& cpus) : previous_(thread_affinity()) {
    is_moved_ = cpus != previous_ && set_thread_affinity(cpus).has_value();
  }
  CallerPlacement(const CallerPlacement&) = delete;
  CallerPlacement& operator=(const CallerPlacement&) = delete;
  ~CallerPlacement() {
    // The thread had these CPUs before. If the system has withdrawn them since, there is no better choice.
    if (is_moved_) static_cast<void>(set_thread_affinity(previous_));
  }

 private:
  const CpuMask previous_;
  bool is_moved_;
};

}  // namespace

template <class Condition>
void ThreadPool::Doorbell::sleep_until(Condition holds) {
  n_sleepers_.fetch_add(1);
  while (true) {
    const uint32_t rings = n_rings_.load();
    if (holds()) break;
    n_rings_.wait(rings);
  }
  n_sleepers_.fetch_sub(1);
}

void ThreadPool::Doorbell::ring() {
  n_rings_.fetch_add(1);
  n_rings_.notify_all();
}

void ThreadPool::Turns::take() {
  const uint32_t mine = n_asked_.fetch_add(1);
  for (uint32_t done = n_done_.load(); done != mine; done = n_done_.load()) n_done_.wait(done);
}

void ThreadPool::Turns::give_back() {
  n_done_.fetch_add(1);
  n_done_.notify_all();
}

class ThreadPool::Turn {
 public:
  explicit Turn(Turns& turns) : turns_(turns) { turns_.take(); }
  ~Turn() { turns_.give_back(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
};

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(const ThreadPoolOptions& options) {
  if (options.n_threads < 1 || options.n_threads > kMaxThreads)
    return fail(ErrorCode::invalid_argument, "{} threads: want 1 to {}", options.n_threads, kMaxThreads);
  if (options.poll < 0 || options.poll > 100)
    return fail(ErrorCode::invalid_argument, "poll level {}: want 0 to 100", options.poll);
  const CpuMask usable = thread_affinity();
  const CpuMask cpus = options.cpus.empty() ? usable : options.cpus & usable;
  if (cpus.empty())
    return fail(ErrorCode::invalid_argument, "CPU mask {}: none of its CPUs is usable (usable: {})",
                to_string(options.cpus), to_string(usable));
  try {
    std::vector<CpuMask> placement = numa_placement(options.numa, cpus, options.n_threads);
    const bool is_roomy = has_cpu_each(placement);
    if (options.affinity == Affinity::strict) placement = one_cpu_each(placement);
    const bool places_caller = placement[0] != usable;
    std::unique_ptr<ThreadPool> pool(new ThreadPool(options, std::move(placement), places_caller, is_roomy));
    for (int i = 1; i < options.n_threads; ++i) {
      pool->threads_.emplace_back([raw = pool.get(), i] { raw->work_until_stopped(i); });
    }
    pool->run([&](ThreadContext& context) { pool->set_up_thread(context.index); });
    for (int i = options.n_threads - 1; i >= 0 && pool->warning_.empty(); --i)
      pool->warning_ = std::move(pool->slots_[to_size(i)].warning);
    if (options.start_paused) pool->pause();
    return pool;
  } catch (const std::system_error& error) {
    return fail(ErrorCode::limit, "cannot start {} threads: {}", options.n_threads, error.code().message());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "cannot start {} threads: out of memory", options.n_threads);
  }
}

ThreadPool::ThreadPool(const ThreadPoolOptions& options, std::vector<CpuMask> cpus, bool places_caller,
                       bool has_cpu_each)
    : n_threads_(options.n_threads),
      cpus_(std::move(cpus)),
      places_caller_(places_caller),
      priority_(options.priority),
      // With more threads than CPUs, a spinning thread occupies the CPU of the thread that it waits for.
      idle_spin_(has_cpu_each ? kSpinPerPollLevel * options.poll : Nanoseconds::zero()),
      barrier_spin_(has_cpu_each ? kBarrierSpin : Nanoseconds::zero()),
      slots_(std::make_unique<Slot[]>(to_size(n_threads_))),
      paused_(false) {
  threads_.reserve(to_size(n_threads_ - 1));
}

ThreadPool::~ThreadPool() {
  for (size_t i = 1; i <= threads_.size(); ++i) start_thread(slots_[i], kStop);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::set_up_thread(int index) {
  Slot& slot = slots_[to_size(index)];
  const CpuMask& cpus = cpus_[to_size(index)];
  if (index == 0) {
    if (places_caller_ && thread_affinity() != cpus)
      slot.warning = fmt::format("the calling thread cannot be kept on CPUs {}", to_string(cpus));
    return;
  }
  ::pthread_setname_np(::pthread_self(), fmt::format("tessera-{}", index).c_str());
  if (cpus != thread_affinity())
    if (auto placed = set_thread_affinity(cpus); !placed) slot.warning = placed.error().message();
  if (const int error = set_priority(priority_); error != 0)
    slot.warning = fmt::format("threads stay at normal priority: {} refused: {}", to_string(priority_),
                               std::generic_category().message(error));
}

void ThreadPool::work_until_stopped(int index) {
  Slot& slot = slots_[to_size(index)];
  uint64_t start = 0;
  while ((start = wait_for_start(slot, start)) != kStop) {
    ThreadContext context(*this, index, job_.n_threads, job_.cancel, start);
    call(*job_.work, context);
    arrive(index, context.count, context.epoch_ + 1);
    slot.finished.store(start, std::memory_order_release);
  }
}

void ThreadPool::start_thread(Slot& slot, uint64_t epoch) {
  slot.start.store(epoch);
  if (slot.bell.has_sleepers()) slot.bell.ring();
}

uint64_t ThreadPool::wait_for_start(Slot& slot, uint64_t previous) {
  const auto started = [&] { return slot.start.load() != previous; };
  const auto stop_spinning = [&] { return started() || paused_.load(std::memory_order_relaxed); };
  const auto blocks_caller = [&] { return is_on_this_cpu(slots_[0]); };
  spin_until(stop_spinning, blocks_caller, idle_spin_);
  if (!started()) slot.bell.sleep_until(started);
  return slot.start.load();
}

void ThreadPool::call(const FunctionRef<void(ThreadContext&)>& work, ThreadContext& context) noexcept {
  try {
    work(context);
  } catch (const BrokenBarrier&) {  // break_run() has the exception that broke it
  } catch (...) {
    break_run(std::current_exception());
  }
}

void ThreadPool::break_run(std::exception_ptr failure) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_ == nullptr) failure_ = std::move(failure);
  is_broken_.store(true);
  if (barrier_bell_.has_sleepers()) barrier_bell_.ring();
}

// The threads left the run at different barriers. Once all have left, the next run begins at the highest epoch.
void ThreadPool::end_broken_run(int n_threads, uint64_t start) {
  for (int i = 1; i < n_threads; ++i)
    while (slots_[to_size(i)].finished.load(std::memory_order_acquire) != start)
      std::this_thread::sleep_for(kBrokenRunPoll);
  for (int i = 1; i < n_threads; ++i) epoch_ = std::max(epoch_, slots_[to_size(i)].epoch.load());
  is_broken_.store(false);
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::run(FunctionRef<void(ThreadContext&)> work, const RunOptions& options) {
  const int n = options.n_threads < 1 ? n_threads_ : std::min(options.n_threads, n_threads_);
  const Turn turn(turns_);
  std::optional<CallerPlacement> placement;
  if (places_caller_) placement.emplace(cpus_[0]);
  chunks_[epoch_ & 1].next.store(0, std::memory_order_relaxed);
  const uint64_t start = epoch_;
  ThreadContext context(*this, 0, n, options.cancel, start);
  if (n > 1) {
    if (paused_.load(std::memory_order_relaxed)) resume();
    job_ = {&work, n, options.cancel};
    for (int i = 1; i < n; ++i) start_thread(slots_[to_size(i)], start);
  }
  call(work, context);
  epoch_ = context.epoch_ + 1;  // so that the start of the next run differs from this one
  if (n > 1) {
    arrive(0, n, epoch_);
    wait_for_all(n, epoch_);
  }
  if (is_broken_.load(std::memory_order_relaxed)) end_broken_run(n, start);
}

bool ThreadPool::is_on_this_cpu(const Slot& slot) {
  return slot.cpu.load(std::memory_order_relaxed) == ::sched_getcpu();
}

void ThreadPool::arrive(int index, int n_threads, uint64_t epoch) {
  Slot& slot = slots_[to_size(index)];
  slot.cpu.store(::sched_getcpu(), std::memory_order_relaxed);
  slot.epoch.store(epoch);
  // Only the last thread to arrive wakes the sleepers: its store comes after all others, so it sees all of them.
  if (barrier_bell_.has_sleepers() && find_late(n_threads, epoch) == nullptr) barrier_bell_.ring();
}

void ThreadPool::wait_for_all(int n_threads, uint64_t epoch) {
  const auto all_arrived = [&] { return find_late(n_threads, epoch) == nullptr || is_broken_.load(); };
  const auto blocks_late_one = [&] {
    const Slot* late = find_late(n_threads, epoch);
    return late != nullptr && is_on_this_cpu(*late);
  };
  if (!spin_until(all_arrived, blocks_late_one, barrier_spin_)) barrier_bell_.sleep_until(all_arrived);
}

const ThreadPool::Slot* ThreadPool::find_late(int n_threads, uint64_t epoch) const {
  for (const Slot& slot : std::span(slots_.get(), to_size(n_threads)))
    if (slot.epoch.load() < epoch) return &slot;
  return nullptr;
}

void ThreadContext::barrier() {
  ++epoch_;
  if (index == 0) {
    // The counter of the next phase was used two phases ago, and all threads left that phase before this one began.
    auto& next = pool_.chunks_[epoch_ & 1].next;
    if (next.load(std::memory_order_relaxed) != 0) next.store(0, std::memory_order_relaxed);
  }
  if (count == 1) return;
  pool_.arrive(index, count, epoch_);
  pool_.wait_for_all(count, epoch_);
  if (pool_.is_broken_.load(std::memory_order_relaxed)) throw BrokenBarrier();
}

bool ThreadContext::barrier_and_check_cancel() {
  // The answers alternate between two variables: thread 0 cannot overwrite one before all threads have passed the next
  // barrier.
  bool& answer = pool_.cancelled_at_[(epoch_ + 1) & 1];
  if (index == 0 && answer != cancelled()) answer = !answer;  // usually no store: the cache line stays shared
  barrier();
  return answer;
}

Result<ThreadGroup> ThreadGroup::create(const ThreadPoolOptions& options) {
  if (options.pool == nullptr) {
    TESSERA_ASSIGN(auto own, ThreadPool::create(options));
    ThreadPool* const pool = own.get();
    return ThreadGroup(std::move(own), pool, options.n_threads);
  }
  if (options.n_threads < 1 || options.n_threads > options.pool->size())
    return fail(ErrorCode::invalid_argument, "{} threads: want 1 to {}", options.n_threads, options.pool->size());
  return ThreadGroup(nullptr, options.pool, options.n_threads);
}

}  // namespace tessera
