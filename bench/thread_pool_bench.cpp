// Benchmarks the overhead of the thread pool: a barrier, and an empty run(). Every matrix product of a token has this
// cost.
#include <benchmark/benchmark.h>

#include "tessera/base/thread_pool.h"

namespace tessera {
namespace {

std::unique_ptr<ThreadPool> make_pool(benchmark::State& state) {
  auto pool = ThreadPool::create({.n_threads = static_cast<int>(state.range(0))});
  if (pool) return std::move(*pool);
  state.SkipWithError(pool.error().message().c_str());
  return nullptr;
}

void run_round_trip(benchmark::State& state) {
  const auto pool = make_pool(state);
  if (!pool) return;
  for (auto _ : state) pool->run([](ThreadContext& context) { benchmark::DoNotOptimize(context.index); });
}
BENCHMARK(run_round_trip)->Arg(1)->Arg(2)->UseRealTime();

void barrier_latency(benchmark::State& state) {
  constexpr int kBarriers = 1000;
  const auto pool = make_pool(state);
  if (!pool) return;
  for (auto _ : state) {
    pool->run([](ThreadContext& context) {
      for (int i = 0; i < kBarriers; ++i) context.barrier();
    });
  }
  state.SetItemsProcessed(state.iterations() * kBarriers);
}
BENCHMARK(barrier_latency)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace tessera
