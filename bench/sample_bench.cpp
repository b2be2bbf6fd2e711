// Benchmarks sampler chains: time per token over random logits of real vocabulary sizes. There is no peak to compare
// with. The default chain is bound by one pass over the logits, and its GB/s are printed.
//   build/release/bench/sample_bench --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/sample/chain.h"
#include "tessera/sample/log_probs.h"

namespace tessera::sample {
namespace {

class Vocab : public VocabView {
 public:
  explicit Vocab(int32_t n_tokens) : n_tokens_(n_tokens) {}
  int32_t n_tokens() const override { return n_tokens_; }
  void append_piece(int32_t, std::string& out) const override { out += 'x'; }

 private:
  int32_t n_tokens_;
};

/// Normal logits with deviation 3, similar to those of a language model.
std::vector<float> random_logits(int64_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& logit : logits) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.next_double()));
    logit = static_cast<float>(3 * radius * std::cos(6.283185307179586 * rng.next_double()));
  }
  return logits;
}

void run(benchmark::State& state, SamplerParams params) {
  params.seed = 1;
  const int64_t n = state.range(0);
  auto chain = Chain::create(params, std::make_shared<Vocab>(static_cast<int32_t>(n)), 4096);
  if (!chain) return state.SkipWithError(chain.error().message().c_str());
  const auto logits = random_logits(n, 2);
  for (auto _ : state) {
    const auto token = (*chain)->sample(logits);
    if (!token) return state.SkipWithError(token.error().message().c_str());
    benchmark::DoNotOptimize((*chain)->accept(*token));
  }
  state.SetBytesProcessed(state.iterations() * n * static_cast<int64_t>(sizeof(float)));
}

void BM_DefaultChain(benchmark::State& state) { run(state, {}); }

void BM_Greedy(benchmark::State& state) { run(state, {.temp = 0}); }

void BM_PenaltiesAndDry(benchmark::State& state) {
  run(state, {.repeat_last_n = -1, .repeat_penalty = 1.1f, .dry_multiplier = 0.8f, .dry_penalty_last_n = -1});
}

void BM_TopPOverAll(benchmark::State& state) { run(state, {.top_k = 0, .min_p = 0}); }

void BM_DistOverAll(benchmark::State& state) { run(state, {.order = {}}); }

void BM_MirostatV2(benchmark::State& state) { run(state, {.mirostat = 2}); }

/// The denominator of the softmax and the 20 most probable tokens.
void BM_LogProbs(benchmark::State& state) {
  const auto logits = random_logits(state.range(0), 2);
  TopLogProbs top;
  for (auto _ : state) benchmark::DoNotOptimize(top.find(logits, softmax_sum(logits), 20).data());
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<int64_t>(sizeof(float)));
}

void BM_SoftmaxSum(benchmark::State& state) {
  const auto logits = random_logits(state.range(0), 2);
  for (auto _ : state) benchmark::DoNotOptimize(softmax_sum(logits));
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<int64_t>(sizeof(float)));
}

BENCHMARK(BM_DefaultChain)->Arg(32000)->Arg(128256)->Arg(262144)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Greedy)->Arg(128256)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_PenaltiesAndDry)->Arg(128256)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_TopPOverAll)->Arg(128256)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_DistOverAll)->Arg(128256)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_MirostatV2)->Arg(128256)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_LogProbs)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_SoftmaxSum)->Arg(150000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera::sample
