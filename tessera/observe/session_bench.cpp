#include "tessera/observe/session_bench.h"

#include <algorithm>
#include <utility>

#include "tessera/observe/stopwatch.h"

namespace tessera::observe {

namespace {

constexpr int kExplainRounds = 3;

}  // namespace

// The ids are arbitrary. A prime step visits all of them, so embedding rows come from memory, not from a cache.
int32_t SessionBench::token_at(int64_t position) const {
  return static_cast<int32_t>((position * 7919 + 13) % session_.engine().model().info().n_vocab);
}

Result<> SessionBench::restart() {
  return session_.remove(0, static_cast<int32_t>(load_.n_depth), static_cast<int32_t>(session_.n_ctx()));
}

Result<> SessionBench::prefill(int64_t begin, int64_t end) {
  std::vector<int32_t> tokens;
  for (; begin < end; begin += load_.n_batch) {
    tokens.clear();
    for (int64_t i = begin; i < std::min(begin + load_.n_batch, end); ++i) tokens.push_back(token_at(i));
    TESSERA_TRY(session_.decode(Batch::prompt(tokens, static_cast<int32_t>(begin), 0), &cancel_));
  }
  return {};
}

// Without a sampler: the choice of a token has a cost of its own.
Result<> SessionBench::generate(int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int32_t token = token_at(i);
    TESSERA_TRY(session_.decode(Batch::prompt(std::span(&token, 1), static_cast<int32_t>(i), 0), &cancel_));
  }
  return {};
}

Result<> SessionBench::fill() { return prefill(0, load_.n_depth); }

Result<BenchSeconds> SessionBench::run() {
  TESSERA_TRY(restart());
  const int64_t end_of_prompt = load_.n_depth + load_.n_prompt;
  const Stopwatch watch;
  TESSERA_TRY(prefill(load_.n_depth, end_of_prompt));
  const double of_prefill = watch.seconds();
  TESSERA_TRY(generate(end_of_prompt, end_of_prompt + load_.n_gen));
  return BenchSeconds{of_prefill, watch.seconds() - of_prefill};
}

Result<TimeAccount> SessionBench::account_for(const std::vector<DevicePeaks>& peaks, int64_t first_position,
                                              FunctionRef<Result<>()> work) {
  TimeAccountant accountant(peaks, session_.options().activations);
  session_.observe_steps([&, position = first_position](const StepView& step) mutable {
    accountant.add(step, position);
    position += step.n_tokens;
  });
  const Stopwatch watch;
  Result<> done = work();
  const double us = watch.microseconds();
  session_.observe_steps({});
  TESSERA_TRY(std::move(done));
  return accountant.account(us);
}

Result<std::vector<ExplainedPhase>> SessionBench::explain(const std::vector<DevicePeaks>& peaks) {
  std::vector<ExplainedPhase> phases;
  if (load_.n_prompt > 0) phases.push_back({"prefill", load_.n_prompt, {}});
  if (load_.n_gen > 0) phases.push_back({"decode", load_.n_gen, {}});
  for (int round = 0; round < kExplainRounds; ++round) {
    TESSERA_TRY(restart());
    int64_t begin = load_.n_depth;
    for (ExplainedPhase& phase : phases) {
      const int64_t end = begin + phase.n_tokens;
      const bool is_prefill = phase.name == "prefill";
      TESSERA_ASSIGN(TimeAccount account, account_for(peaks, begin, [&] {
                       return is_prefill ? prefill(begin, end) : generate(begin, end);
                     }));
      if (round == 0 || account.us < phase.account.us) phase.account = std::move(account);
      begin = end;
    }
  }
  return phases;
}

}  // namespace tessera::observe
