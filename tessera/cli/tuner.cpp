#include "tessera/cli/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/base/cpu_info.h"
#include "tessera/base/index.h"
#include "tessera/base/memory_nodes.h"
#include "tessera/cli/replay_text.h"
#include "tessera/cli/summary.h"
#include "tessera/cli/tuner_texts.h"
#include "tessera/observe/stopwatch.h"

namespace tessera::cli {

namespace {

constexpr int kMostRounds = 7;  // besides the one that warms up

// Shares of the time to measure in.
constexpr double kThreadsShare = 0.35, kPlacementShare = 0.1, kUbatchShare = 0.35, kGuessesShare = 0.2;

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

}  // namespace

size_t clear_winner(std::span<const double> seconds) {
  constexpr double kClearGain = 0.98;  // a smaller gain is noise
  const auto fastest = static_cast<size_t>(std::ranges::min_element(seconds) - seconds.begin());
  return seconds[fastest] <= seconds[0] * kClearGain ? fastest : 0;
}

Result<Tuner::Trial> Tuner::start(const Candidate& candidate, const observe::BenchLoad& load) const {
  SessionOptions options = candidate.session;
  options.n_ctx = load.n_ctx();
  TESSERA_ASSIGN(const MemoryReport report, Session::plan(*model_.engine, options));
  Result<> fits = require_memory(*model_.engine, report);
  auto session = fits ? Session::create(model_.engine, options) : forward_error(fits);
  if (session) return Trial{.session = *std::move(session)};
  if (session.error().code() == ErrorCode::out_of_memory) return Trial{.session = nullptr};
  return forward_error(session);
}

double Tuner::request_seconds(const observe::BenchSeconds& measured, const observe::BenchLoad& load) const {
  const auto scaled = [](double seconds, int64_t n, int64_t n_measured) {
    return n_measured == 0 ? 0.0 : seconds * static_cast<double>(n) / static_cast<double>(n_measured);
  };
  return scaled(measured.prefill, goal_.n_prompt, load.n_prompt) + scaled(measured.decode, goal_.n_gen, load.n_gen);
}

Result<> Tuner::measure(std::span<Trial> trials, const observe::BenchLoad& load, double seconds) const {
  const observe::Stopwatch watch;
  for (int round = 0; round <= kMostRounds; ++round) {
    for (Trial& trial : trials) {
      if (trial.session == nullptr) continue;
      observe::SessionBench bench(*trial.session, load, cancel_);
      TESSERA_ASSIGN(const observe::BenchSeconds measured, bench.run());
      if (round == 1) trial.seconds.clear();  // the first round mapped the pages of memory
      trial.seconds.push_back(request_seconds(measured, load));
    }
    const double used = watch.seconds();
    if (used + used / (round + 1) > seconds) break;
  }
  return {};
}

// Measures a few tokens, so that longer measurements can be planned.
Result<> Tuner::calibrate() {
  const observe::BenchLoad load{.n_prompt = 32, .n_gen = 3};
  TESSERA_ASSIGN(const Trial trial, start({"", best_}, load));
  if (trial.session == nullptr) return fail(ErrorCode::out_of_memory, "no memory for a session to measure");
  observe::SessionBench bench(*trial.session, load, cancel_);
  TESSERA_TRY(bench.run());
  TESSERA_ASSIGN(const observe::BenchSeconds measured, bench.run());
  prefill_token_seconds_ = measured.prefill / static_cast<double>(load.n_prompt);
  decode_token_seconds_ = measured.decode / static_cast<double>(load.n_gen);
  return {};
}

// A part of the request that takes about this time, half of it for each phase.
observe::BenchLoad Tuner::load_for(double seconds) const {
  constexpr int64_t kLeastPrompt = 32, kLeastGen = 2;
  const auto tokens = [&](double token_seconds, int64_t least, int64_t most) {
    const double n = std::min(seconds / 2 / std::max(token_seconds, 1e-9), static_cast<double>(most));
    return std::min(std::max(static_cast<int64_t>(n), least), most);
  };
  return {.n_prompt = tokens(prefill_token_seconds_, kLeastPrompt, goal_.n_prompt),
          .n_gen = tokens(decode_token_seconds_, kLeastGen, goal_.n_gen)};
}

Result<TuneChoice> Tuner::choose(std::string_view setting, const std::vector<Candidate>& candidates,
                                 const observe::BenchLoad& load, double seconds) {
  TuneChoice choice{.setting = std::string(setting), .chosen = candidates.front().name, .trials = {}};
  if (candidates.size() == 1) {
    choice.trials.push_back("no other value");
    return choice;
  }
  std::vector<Trial> trials;
  for (const Candidate& candidate : candidates) {
    TESSERA_ASSIGN(Trial trial, start(candidate, load));
    trials.push_back(std::move(trial));
  }
  TESSERA_TRY(measure(trials, load, seconds));
  std::vector<double> medians;
  for (size_t i = 0; i < trials.size(); ++i) {
    const bool fits = trials[i].session != nullptr;
    medians.push_back(fits ? median(trials[i].seconds) : std::numeric_limits<double>::infinity());
    choice.trials.push_back(
        fmt::format("{}: {}", candidates[i].name, fits ? seconds_text(medians[i]) : "too large for the memory"));
  }
  const size_t winner = clear_winner(medians);
  choice.chosen = candidates[winner].name;
  best_ = candidates[winner].session;
  return choice;
}

std::vector<Tuner::Candidate> Tuner::thread_candidates() const {
  const CpuMask cpus = thread_affinity();
  const int32_t usual = best_.threads.n_threads;
  std::vector<int32_t> numbers = {usual};
  for (const int32_t n : {usual / 4, usual / 2, usual * 3 / 4, cpus.count()})
    if (n >= 1 && n <= ThreadPool::kMaxThreads && std::ranges::find(numbers, n) == numbers.end()) numbers.push_back(n);
  std::vector<Candidate> candidates;
  for (const int32_t n : numbers) {
    candidates.push_back({std::to_string(n), best_});
    candidates.back().session.threads.n_threads = n;
  }
  return candidates;
}

Result<std::vector<Tuner::Candidate>> Tuner::placement_candidates() const {
  std::vector<Candidate> candidates = {{"free", best_}, {"a CPU each", best_}};
  candidates[1].session.threads.affinity = Affinity::strict;
  TESSERA_ASSIGN(const std::vector<int> nodes, memory_nodes());
  if (nodes.size() > 1) {
    candidates.push_back({"over memory nodes", best_});
    candidates.back().session.threads.numa = NumaPolicy::distribute;
  }
  return candidates;
}

// A micro-batch has at most the tokens of the prompt.
std::vector<Tuner::Candidate> Tuner::ubatch_candidates(int64_t n_prompt) const {
  std::vector<int64_t> sizes = {best_.n_ubatch};
  for (const int64_t n : {64, 128, 256, 512, 1024, 2048, 4096})
    if (n <= n_prompt && std::ranges::find(sizes, n) == sizes.end()) sizes.push_back(n);
  std::vector<Candidate> candidates;
  for (const int64_t n : sizes) {
    candidates.push_back({std::to_string(n), best_});
    candidates.back().session.n_ubatch = n;
  }
  return candidates;
}

// Returns how many times faster the model writes the second half of a text with guesses than without.
Result<double> Tuner::measure_guesses(std::span<const int32_t> tokens, int64_t n_written, double seconds) const {
  const observe::Stopwatch watch;
  std::vector<double> ratios;
  for (int round = 0; round < kMostRounds; ++round) {
    GenerateOptions options;
    TESSERA_ASSIGN(const double without, write_text(model_, tokens, n_written, options, cancel_));
    TESSERA_ASSIGN(const auto speculator, model_.create_speculator());
    options.speculator = speculator.get();
    TESSERA_ASSIGN(const double with, write_text(model_, tokens, n_written, options, cancel_));
    ratios.push_back(without / with);
    const double used = watch.seconds();
    if (used + used / (round + 1) > seconds) break;
  }
  return median(std::move(ratios));
}

Result<std::optional<double>> Tuner::measure_text(std::string_view text, const std::vector<DraftKind>& kinds,
                                                  double seconds) {
  constexpr int64_t kLeastWritten = 16;
  TESSERA_ASSIGN(auto tokens, model_.engine->tokenizer().tokenize(text, {.add_special = true}));
  const int64_t n_prompt = std::ssize(tokens) / 2;
  const double writing_seconds = seconds / 2 - prefill_token_seconds_ * static_cast<double>(n_prompt);
  const auto n_written = static_cast<int64_t>(std::min(writing_seconds / std::max(decode_token_seconds_, 1e-9),
                                                       static_cast<double>(std::ssize(tokens) - n_prompt)));
  if (n_written < kLeastWritten) return std::nullopt;
  tokens.resize(to_size(n_prompt + n_written));
  model_.speculation.kinds = kinds;
  SessionOptions options = best_;
  options.n_ctx = std::ssize(tokens);
  model_.speculation.extend(options);
  TESSERA_ASSIGN(model_.session, Session::create(model_.engine, options));
  TESSERA_TRY(model_.follow_with_head());
  auto ratio = measure_guesses(tokens, n_written, seconds);
  model_.head = nullptr;
  model_.session = nullptr;
  if (!ratio) return forward_error(ratio);
  return std::optional(*ratio);
}

// Guesses are used if they help where a text repeats, and cost nothing where it does not.
Result<TuneChoice> Tuner::choose_guesses(double seconds, std::vector<DraftKind>& kinds) {
  constexpr double kLeastOfProse = 0.98, kLeastOfRepeated = 1.1;
  TuneChoice choice{.setting = "guesses", .chosen = "none", .trials = {}};
  const auto skip = [&](std::string reason) {
    choice.trials.push_back(std::move(reason));
    return choice;
  };
  if (!model_.engine->model().info().has_logits) return skip("the model writes no text");
  if (!model_.engine->tokenizer().tokenize("a", {})) return skip("the model has no tokenizer");
  std::vector<std::vector<DraftKind>> candidates = {{DraftKind::suffix}};
  if (model_.engine->model().head() != nullptr) {
    candidates.push_back({DraftKind::head});
    candidates.push_back({DraftKind::suffix, DraftKind::head});
  }
  const double share = seconds / 2 / static_cast<double>(candidates.size());
  double best = 0;
  for (const std::vector<DraftKind>& candidate : candidates) {
    const std::string name = names_of(candidate);
    TESSERA_ASSIGN(const auto of_prose, measure_text(prose_text(), candidate, share));
    if (!of_prose) return skip("the model is too slow to measure this in the time");
    TESSERA_ASSIGN(const auto of_repeated, measure_text(repeated_text(), candidate, share));
    if (!of_repeated) return skip("the model is too slow to measure this in the time");
    choice.trials.push_back(fmt::format("{} on prose: {:.2f} times as fast", name, *of_prose));
    choice.trials.push_back(fmt::format("on text that repeats: {:.2f} times", *of_repeated));
    const double gain = *of_prose * *of_repeated;
    if (*of_prose < kLeastOfProse || *of_repeated < kLeastOfRepeated || gain <= best) continue;
    best = gain;
    choice.chosen = name;
    kinds = candidate;
  }
  return choice;
}

Result<Tuning> Tuner::run(const Report& report) {
  const auto total = static_cast<double>(goal_.seconds);
  TESSERA_TRY(calibrate());
  // Both of the first two settings measure the same part of the request, so that their times compare: at least three
  // rounds and a warm-up of each value.
  const std::vector<Candidate> threads = thread_candidates();
  constexpr double kRuns = 4, kPlacements = 3;
  const observe::BenchLoad load = load_for(
      total * std::min(kThreadsShare / static_cast<double>(threads.size()), kPlacementShare / kPlacements) / kRuns);
  TESSERA_ASSIGN(const TuneChoice n_threads, choose("threads", threads, load, total * kThreadsShare));
  TESSERA_TRY(report(n_threads));
  TESSERA_ASSIGN(const std::vector<Candidate> placements, placement_candidates());
  TESSERA_ASSIGN(const TuneChoice placement, choose("placement", placements, load, total * kPlacementShare));
  TESSERA_TRY(report(placement));

  const double ubatch_seconds = total * kUbatchShare;
  constexpr double kUbatchRuns = 12;  // of about six sizes, with a warm-up
  const auto n_prompt = static_cast<int64_t>(std::min(
      ubatch_seconds / kUbatchRuns / std::max(prefill_token_seconds_, 1e-9), static_cast<double>(goal_.n_prompt)));
  const std::vector<Candidate> sizes = ubatch_candidates(n_prompt);
  TESSERA_ASSIGN(const TuneChoice ubatch,
                 choose("micro-batch", sizes, {.n_prompt = std::max<int64_t>(n_prompt, 1)}, ubatch_seconds));
  TESSERA_TRY(report(ubatch));

  Tuning tuning{.n_threads = best_.threads.n_threads,
                .has_cpu_each = best_.threads.affinity == Affinity::strict,
                .is_distributed = best_.threads.numa == NumaPolicy::distribute,
                .n_ubatch = best_.n_ubatch};
  TESSERA_ASSIGN(const TuneChoice guesses, choose_guesses(total * kGuessesShare, tuning.kinds));
  TESSERA_TRY(report(guesses));
  return tuning;
}

}  // namespace tessera::cli
