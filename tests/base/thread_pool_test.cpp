#include "tessera/base/thread_pool.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/testing.h"

namespace tessera {
namespace {

std::unique_ptr<ThreadPool> make_pool(const ThreadPoolOptions& options) {
  auto pool = ThreadPool::create(options);
  EXPECT_TRUE(pool.has_value()) << pool.error().message();
  return pool ? std::move(*pool) : nullptr;
}

std::unique_ptr<ThreadPool> make_pool(int n_threads) { return make_pool({.n_threads = n_threads}); }

size_t at(int index) { return static_cast<size_t>(index); }

double process_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Every thread writes its cell, passes the barrier, and checks all cells. A barrier that releases a thread early, or
// does not publish the writes, fails this test (and the thread sanitizer, because the cells are plain integers).
int count_stale_reads(ThreadPool& pool, int n_threads, int n_rounds) {
  std::vector<int> cells(at(n_threads), -1), n_stale(at(n_threads), 0);
  pool.run(
      [&](ThreadContext& context) {
        for (int round = 0; round < n_rounds; ++round) {
          cells[at(context.index)] = round;
          context.barrier();
          for (const int cell : cells) n_stale[at(context.index)] += cell == round ? 0 : 1;
          context.barrier();
        }
      },
      {.n_threads = n_threads});
  return std::reduce(n_stale.begin(), n_stale.end());
}

TEST(ThreadPool, RunsTheWorkOnceOnEachThread) {
  const auto pool = make_pool(4);
  std::vector<int> n_calls(4, 0);
  std::vector<int> counts(4, 0);
  pool->run([&](ThreadContext& context) {
    ++n_calls[at(context.index)];
    counts[at(context.index)] = context.count;
  });
  EXPECT_EQ(n_calls, std::vector<int>(4, 1));
  EXPECT_EQ(counts, std::vector<int>(4, 4));
}

TEST(ThreadPool, CallerIsThreadZero) {
  const auto pool = make_pool(3);
  std::vector<std::thread::id> ids(3);
  pool->run([&](ThreadContext& context) { ids[at(context.index)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[1], ids[2]);
}

TEST(ThreadPool, RunsWithFewerThreadsAndWithAllAgain) {
  const auto pool = make_pool(4);
  for (const int wanted : {2, 4, 1, 3, 4, 0, 9, 2}) {
    std::vector<int> n_calls(4, 0);
    pool->run([&](ThreadContext& context) { ++n_calls[at(context.index)]; }, {.n_threads = wanted});
    const int expected = wanted == 0 ? 4 : std::min(wanted, 4);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(n_calls[at(i)], i < expected ? 1 : 0) << wanted << " threads, index " << i;
  }
}

TEST(ThreadPool, ThreadThatSatOutManyBarriersJoinsCorrectly) {
  const auto pool = make_pool(3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(count_stale_reads(*pool, 2, 200), 0);
    EXPECT_EQ(count_stale_reads(*pool, 1, 7), 0);
    EXPECT_EQ(count_stale_reads(*pool, 3, 20), 0);
  }
}

TEST(ThreadPool, BarrierPublishesAllWrites) {
  const auto pool = make_pool(2);
  EXPECT_EQ(count_stale_reads(*pool, 2, 20000), 0);
}

TEST(ThreadPool, BarrierWorksWithMoreThreadsThanCpus) {
  const auto pool = make_pool(24);
  EXPECT_EQ(count_stale_reads(*pool, 24, 50), 0);
}

TEST(ThreadPool, BarrierOutlastsItsSpinning) {
  const auto pool = make_pool(2);
  std::vector<int> cells(2, 0);
  pool->run([&](ThreadContext& context) {
    for (int round = 1; round <= 5; ++round) {
      // Much longer than the spin of 200 us, so that the other thread sleeps in the kernel. The threads alternate.
      if (context.index == round % 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      cells[at(context.index)] = round;
      context.barrier();
      EXPECT_EQ(cells[at(1 - context.index)], round);
      context.barrier();
    }
  });
}

TEST(ThreadPool, ManyShortRunsLoseNoWork) {
  const auto pool = make_pool(2);
  std::vector<int64_t> n_calls(2, 0);
#ifdef TESSERA_SANITIZED
  constexpr int kRuns = 10000;
#else
  constexpr int kRuns = 100000;
#endif
  for (int i = 0; i < kRuns; ++i) pool->run([&](ThreadContext& context) { ++n_calls[at(context.index)]; });
  EXPECT_EQ(n_calls[0], kRuns);
  EXPECT_EQ(n_calls[1], kRuns);
}

TEST(ThreadPool, EveryPollLevelWakesUp) {
  for (const int poll : {0, 1, 50, 100}) {
    const auto pool = make_pool({.n_threads = 2, .poll = poll});
    int n_calls = 0;
    for (int i = 0; i < 20; ++i) {
      if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      pool->run([&](ThreadContext& context) {
        if (context.index == 1) ++n_calls;
      });
    }
    EXPECT_EQ(n_calls, 20) << "poll " << poll;
  }
}

TEST(ThreadPool, ChunksAreEachTakenOnceInEveryPhase) {
  constexpr int kThreads = 4, kPhases = 50, kChunks = 100;
  const auto pool = make_pool(kThreads);
  std::vector<std::atomic<int>> n_taken(kPhases * kChunks);
  for (int repeat = 0; repeat < 3; ++repeat) {
    pool->run([&](ThreadContext& context) {
      for (int phase = 0; phase < kPhases; ++phase) {
        for (int64_t c; (c = context.next_chunk()) < kChunks;) ++n_taken[at(phase * kChunks + static_cast<int>(c))];
        context.barrier();
      }
    });
  }
  for (const auto& n : n_taken) ASSERT_EQ(n.load(), 3);
}

TEST(ThreadPool, ChunksStartAtZeroWithOneThread) {
  const auto pool = make_pool(1);
  for (int repeat = 0; repeat < 3; ++repeat) {
    pool->run([&](ThreadContext& context) {
      EXPECT_EQ(context.next_chunk(), 0);
      EXPECT_EQ(context.next_chunk(), 1);
      context.barrier();
      EXPECT_EQ(context.next_chunk(), 0);
    });
  }
}

TEST(ThreadPool, AllThreadsAgreeWhenToCancel) {
  const auto pool = make_pool(4);
  for (int repeat = 0; repeat < 200; ++repeat) {
    CancelToken token;
    std::vector<int> left_at(4, -1);
    pool->run(
        [&](ThreadContext& context) {
          for (int round = 0; round < 100000; ++round) {
            if (context.index == repeat % 4 && round == repeat % 7) token.cancel();
            if (!context.barrier_and_check_cancel()) continue;
            left_at[at(context.index)] = round;
            return;
          }
        },
        {.cancel = &token});
    EXPECT_GE(left_at[0], repeat % 7);
    EXPECT_EQ(left_at, std::vector<int>(4, left_at[0]));
  }
}

TEST(ThreadPool, CancelFromOutsideStopsARun) {
  const auto pool = make_pool(2);
  CancelToken token;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    token.cancel();
  });
  pool->run(
      [&](ThreadContext& context) {
        while (!context.cancelled()) std::this_thread::yield();
        EXPECT_TRUE(context.barrier_and_check_cancel());
      },
      {.cancel = &token});
  canceller.join();
  EXPECT_TRUE(token.cancelled());
}

TEST(ThreadPool, NewRunForgetsAnOldCancel) {
  const auto pool = make_pool(2);
  CancelToken token;
  token.cancel();
  std::vector<int> answers(2, -1);
  const auto ask = [&](ThreadContext& context) {
    answers[at(context.index)] = context.barrier_and_check_cancel() ? 1 : 0;
    context.barrier();
  };
  const CancelToken* const tokens[] = {&token, nullptr, &token};
  for (const CancelToken* cancel : tokens) {
    pool->run(ask, {.cancel = cancel});
    EXPECT_EQ(answers, std::vector<int>(2, cancel != nullptr ? 1 : 0));
  }
  token.reset();
  pool->run(ask, {.cancel = &token});
  EXPECT_EQ(answers, std::vector<int>(2, 0));
}

TEST(ThreadPool, RunsWhilePausedAndAfterResume) {
  const auto pool = make_pool({.n_threads = 2, .start_paused = true});
  int n_calls = 0;
  const auto work = [&](ThreadContext& context) {
    if (context.index == 1) ++n_calls;
  };
  pool->run(work);
  pool->pause();
  pool->run(work);
  pool->pause();
  pool->resume();
  pool->run(work);
  EXPECT_EQ(n_calls, 3);
}

TEST(ThreadPool, IdleThreadsCostNoCpuTime) {
  for (const bool paused : {true, false}) {
    const auto pool = make_pool({.n_threads = 2, .poll = 100, .start_paused = paused});
    const double before = process_cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    // One thread may spin for 0.4 ms; a tenth of the time leaves room for the sanitizers' own threads.
    EXPECT_LT(process_cpu_seconds() - before, 0.010) << (paused ? "paused" : "polling");
  }
}

TEST(ThreadPool, PauseFromAnotherThreadIsSafeDuringRuns) {
  const auto pool = make_pool(2);
  std::atomic<bool> done{false};
  std::thread pauser([&] {
    while (!done.load()) {
      pool->pause();
      std::this_thread::yield();
    }
  });
  int n_calls = 0;
  for (int i = 0; i < 500; ++i)
    pool->run([&](ThreadContext& context) {
      if (context.index == 1) ++n_calls;
    });
  done = true;
  pauser.join();
  EXPECT_EQ(n_calls, 500);
}

TEST(ThreadPool, StrictPlacementPinsThreadsRoundRobin) {
  const CpuMask before = thread_affinity();
  const std::vector<int> usable = before.cpus();
  const auto pool = make_pool({.n_threads = 5, .affinity = Affinity::strict});
  std::vector<CpuMask> masks(5);
  pool->run([&](ThreadContext& context) { masks[at(context.index)] = thread_affinity(); });
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(masks[i].cpus(), std::vector<int>{usable[i % usable.size()]});
  EXPECT_EQ(thread_affinity(), before);
  EXPECT_EQ(pool->warning(), "");
}

TEST(ThreadPool, MaskConfinesWorkersAndDuringRunsTheCaller) {
  const CpuMask before = thread_affinity();
  CpuMask one;
  one.add(before.cpus().back());
  const auto pool = make_pool({.n_threads = 3, .cpus = one});
  EXPECT_EQ(thread_affinity(), before);
  for (const int n_threads : {3, 1}) {
    std::vector<CpuMask> masks(3, one);
    pool->run([&](ThreadContext& context) { masks[at(context.index)] = thread_affinity(); }, {.n_threads = n_threads});
    EXPECT_EQ(masks, std::vector<CpuMask>(3, one));
    EXPECT_EQ(thread_affinity(), before);
  }
}

TEST(ThreadPool, EveryNumaPolicyKeepsThreadsOnUsableCpus) {
  const CpuMask before = thread_affinity();
  for (const NumaPolicy policy : {NumaPolicy::none, NumaPolicy::distribute, NumaPolicy::isolate, NumaPolicy::numactl}) {
    const std::vector<CpuMask> expected = numa_placement(policy, before, 3);
    const auto pool = make_pool({.n_threads = 3, .numa = policy});
    std::vector<CpuMask> masks(3);
    pool->run([&](ThreadContext& context) { masks[at(context.index)] = thread_affinity(); });
    EXPECT_EQ(masks, expected);
    EXPECT_EQ(thread_affinity(), before);
    EXPECT_EQ(pool->warning(), "");
  }
}

#ifdef __x86_64__
// Runs in a child process in which the system refuses every thread affinity. Returns 0 if each pool reports that and
// still works.
int run_without_placement() {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_sched_setaffinity, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, kRefuse), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = std::size(code), .filter = code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return 77;
  const std::string_view expected[] = {"the calling thread cannot be kept on CPUs", "cannot run on CPUs"};
  for (const int n_threads : {1, 2}) {
    const auto pool = ThreadPool::create({.n_threads = n_threads, .affinity = Affinity::strict});
    if (!pool || !(*pool)->warning().starts_with(expected[n_threads - 1])) return 1;
    std::atomic<int> n_calls{0};
    (*pool)->run([&](ThreadContext&) { ++n_calls; });
    if (n_calls != n_threads) return 2;
  }
  return 0;
}

TEST(ThreadPool, RefusedPlacementIsAWarning) {
  if (thread_affinity().count() < 2) GTEST_SKIP() << "one CPU: nothing to place";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_without_placement());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(ThreadPool, LowPriorityAppliesToWorkersOnly) {
  const auto pool = make_pool({.n_threads = 2, .priority = Priority::low});
  std::vector<int> nice(2, -100);
  pool->run([&](ThreadContext& context) { nice[at(context.index)] = ::getpriority(PRIO_PROCESS, 0); });
  EXPECT_EQ(pool->warning(), "");
  EXPECT_LT(nice[0], nice[1]);
}

TEST(ThreadPool, RefusedPriorityIsAWarning) {
  // Without the privilege the system refuses. With it (root), the priority applies. The pool works in both cases.
  for (const Priority priority : {Priority::medium, Priority::high, Priority::realtime}) {
    const auto pool = make_pool({.n_threads = 2, .priority = priority});
    bool raised = false;
    pool->run([&](ThreadContext& context) {
      if (context.index == 0) return;
      int policy = 0;
      sched_param parameter{};
      ::pthread_getschedparam(::pthread_self(), &policy, &parameter);
      raised = policy == SCHED_FIFO || ::getpriority(PRIO_PROCESS, 0) < 0;
    });
    EXPECT_EQ(raised, pool->warning().empty()) << pool->warning();
  }
}

TEST(ThreadPool, RefusedThreadIsAnError) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
#ifdef TESSERA_SANITIZED
  GTEST_SKIP() << "sanitizers need the address space that this test takes away";
#endif
  const rlimit small{.rlim_cur = 512u << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
  const auto pool = ThreadPool::create({.n_threads = 512});  // 512 stacks of 8 MiB do not fit
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_ERROR(pool, "cannot start 512 threads");
}

TEST(ThreadPool, RejectsOptionsOutOfRange) {
  EXPECT_ERROR(ThreadPool::create({.n_threads = 0}), "0 threads: want 1 to 512");
  EXPECT_ERROR(ThreadPool::create({.n_threads = -4}), "-4 threads");
  EXPECT_ERROR(ThreadPool::create({.n_threads = 513}), "513 threads");
  EXPECT_ERROR(ThreadPool::create({.poll = -1}), "poll level -1");
  EXPECT_ERROR(ThreadPool::create({.poll = 101}), "poll level 101: want 0 to 100");
}

TEST(ThreadPool, RejectsAMaskWithoutUsableCpus) {
  CpuMask far;
  far.add(CpuMask::kMaxCpus - 1);
  EXPECT_ERROR(ThreadPool::create({.n_threads = 2, .cpus = far}), "CPU mask 4095: none of its CPUs is usable");
}

TEST(ThreadPool, LargestPoolStartsRunsAndStops) {
  const auto pool = make_pool(ThreadPool::kMaxThreads);
  std::atomic<int> sum{0};
  pool->run([&](ThreadContext& context) {
    context.barrier();
    sum += context.index;
  });
  EXPECT_EQ(sum.load(), 511 * 512 / 2);
}

TEST(ThreadPool, PoolIsDestroyedUnused) {
  for (int i = 0; i < 20; ++i) make_pool({.n_threads = 3, .start_paused = i % 2 == 0});
}

// Each run counts alone: a second one in the meantime would be seen by the thread sanitizer, and in the numbers.
TEST(ThreadPool, RunsOfSeveralThreadsTakeTurns) {
  const auto pool = make_pool(3);
  constexpr int kCallers = 4, kRuns = 200;
  std::vector<int> n_calls(3, 0);
  int n_wrong = 0;
  const auto call = [&] {
    for (int i = 0; i < kRuns; ++i)
      pool->run([&](ThreadContext& context) {
        const int before = n_calls[at(context.index)]++;
        context.barrier();
        if (context.index != 0) return;
        for (const int calls : n_calls) n_wrong += calls == before + 1 ? 0 : 1;
      });
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) callers.emplace_back(call);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(n_wrong, 0);
  EXPECT_EQ(n_calls, std::vector<int>(3, kCallers * kRuns));
}

// A thread that runs again and again lets another in after its current run.
TEST(ThreadPool, TurnsAreGivenInTheOrderOfTheCalls) {
  const auto pool = make_pool(2);
  std::atomic<bool> asks{false}, was_served{false};
  std::thread other;
  int n_runs = 0, n_while_asking = 0;
  while (!was_served && n_runs < 10'000) {
    pool->run([&](ThreadContext& context) {
      if (context.index != 0) return;
      if (++n_runs == 1) {
        other = std::thread([&] {
          asks = true;
          pool->run([&](ThreadContext&) { was_served = true; });
        });
        while (!asks) std::this_thread::yield();
        // The other thread is about to ask: time for it to do so.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      n_while_asking += was_served ? 0 : 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
  }
  other.join();
  EXPECT_TRUE(was_served);
  EXPECT_LT(n_while_asking, 1000);
}

struct Mishap : std::runtime_error {
  explicit Mishap(int index) : std::runtime_error("mishap"), thread(index) {}
  int thread;
};

// Returns the thread whose exception run() threw; -1: none.
int thrower_of(ThreadPool& pool, FunctionRef<void(ThreadContext&)> work, int n_threads = 0) {
  try {
    pool.run(work, {.n_threads = n_threads});
  } catch (const Mishap& mishap) {
    return mishap.thread;
  }
  return -1;
}

TEST(ThreadPool, AnExceptionOfOneThreadEndsTheRun) {
  for (const int n_threads : {1, 2, 3, 4}) {
    const auto pool = make_pool(4);
    for (int thrower = 0; thrower < n_threads; ++thrower)
      for (const int n_before : {0, 1, 5}) {
        std::atomic<int> n_beyond{0};
        const auto work = [&](ThreadContext& context) {
          for (int i = 0; i < 10; ++i) {
            if (i == n_before && context.index == thrower) throw Mishap(thrower);
            context.barrier();
            if (i >= n_before) ++n_beyond;
          }
        };
        EXPECT_EQ(thrower_of(*pool, work, n_threads), thrower) << n_threads << " threads, " << n_before;
        EXPECT_EQ(n_beyond.load(), 0);
        EXPECT_EQ(count_stale_reads(*pool, n_threads, 20), 0);
        EXPECT_EQ(count_stale_reads(*pool, 4, 20), 0);
      }
  }
}

TEST(ThreadPool, ThreadsThatHaveNoBarrierLeftFinishTheirWork) {
  const auto pool = make_pool(3);
  for (int thrower = 0; thrower < 3; ++thrower) {
    std::atomic<int> n_finished{0};
    const auto work = [&](ThreadContext& context) {
      if (context.index == thrower) throw Mishap(thrower);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++n_finished;
    };
    EXPECT_EQ(thrower_of(*pool, work), thrower);
    EXPECT_EQ(n_finished.load(), 2);
    EXPECT_EQ(count_stale_reads(*pool, 3, 20), 0);
  }
}

TEST(ThreadPool, OfSeveralExceptionsOneIsThrown) {
  const auto pool = make_pool(4);
  for (int i = 0; i < 50; ++i) {
    const int thrower = thrower_of(*pool, [](ThreadContext& context) { throw Mishap(context.index); });
    EXPECT_TRUE(thrower >= 0 && thrower < 4) << thrower;
  }
  EXPECT_EQ(count_stale_reads(*pool, 4, 20), 0);
}

TEST(ThreadPool, SleepingThreadsNoticeAnException) {
  const auto pool = make_pool({.n_threads = 3, .poll = 0});
  for (int thrower = 0; thrower < 3; ++thrower) {
    const auto work = [&](ThreadContext& context) {
      if (context.index == thrower) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the others sleep at the barrier by then
        throw Mishap(thrower);
      }
      context.barrier();
    };
    EXPECT_EQ(thrower_of(*pool, work), thrower);
  }
}

TEST(ThreadGroup, HasAPoolOfItsOwnOrThreadsOfAnother) {
  ASSERT_OK_AND_ASSIGN(ThreadGroup own, ThreadGroup::create({.n_threads = 2}));
  EXPECT_EQ(own.size(), 2);
  const auto pool = make_pool(3);
  ASSERT_OK_AND_ASSIGN(ThreadGroup shared, ThreadGroup::create({.n_threads = 2, .pool = pool.get()}));
  EXPECT_EQ(shared.size(), 2);
  for (ThreadGroup* group : {&own, &shared}) {
    std::vector<int> counts(2, 0);
    group->run([&](ThreadContext& context) { counts[at(context.index)] = context.count; });
    EXPECT_EQ(counts, std::vector<int>(2, 2));
    CancelToken cancel;
    cancel.cancel();
    bool is_cancelled = false;
    group->run(
        [&](ThreadContext& context) {
          if (context.barrier_and_check_cancel() && context.index == 0) is_cancelled = true;
        },
        &cancel);
    EXPECT_TRUE(is_cancelled);
  }
  // The pool's threads are the ones that work.
  std::vector<std::thread::id> of_pool(3), of_group(2);
  pool->run([&](ThreadContext& context) { of_pool[at(context.index)] = std::this_thread::get_id(); });
  shared.run([&](ThreadContext& context) { of_group[at(context.index)] = std::this_thread::get_id(); });
  EXPECT_EQ(of_group[1], of_pool[1]);
  for (const int n : {0, 4})
    EXPECT_ERROR(ThreadGroup::create({.n_threads = n, .pool = pool.get()}),
                 std::to_string(n) + " threads: want 1 to 3");
  EXPECT_ERROR(ThreadGroup::create({.n_threads = 0}), "0 threads: want 1 to 512");
}

}  // namespace
}  // namespace tessera
