// The measurements of `tessera tune`: one setting after another, each with its alternatives in turns, so that a load
// that comes and goes meets all of them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/cli/tuning.h"
#include "tessera/observe/session_bench.h"

namespace tessera::cli {

struct TuneGoal {
  int64_t n_prompt = 1024, n_gen = 128;  // the request whose time is to become short: tokens to prefill and to generate
  int64_t seconds = 60;                  // to measure in
};

/// The choice of one setting.
struct TuneChoice {
  std::string setting;              // "threads"
  std::string chosen;               // "2"
  std::vector<std::string> trials;  // "1: 3.21 s", ...; a reason if nothing was measured
};

/// The index of the least time, if it is clearly less than the first one; else 0. seconds: at least one.
size_t clear_winner(std::span<const double> seconds);

class Tuner {
 public:
  using Report = std::function<Result<>(const TuneChoice&)>;

  /// The model is loaded and has no session. `session` has the settings to start from, which win if others are not
  /// clearly better.
  Tuner(LoadedModel& model, const SessionOptions& session, const TuneGoal& goal, const CancelToken& cancel)
      : model_(model), best_(session), goal_(goal), cancel_(cancel) {}

  /// Measures all settings and reports each choice. Errors: those of sessions and of `report`; cancelled.
  Result<Tuning> run(const Report& report);

 private:
  struct Candidate {
    std::string name;
    SessionOptions session;
  };
  struct Trial {
    std::unique_ptr<Session> session;  // null: it does not fit into the memory
    std::vector<double> seconds{};     // of the request, as far as `load` has its phases
  };

  Result<Trial> start(const Candidate& candidate, const observe::BenchLoad& load) const;
  Result<> measure(std::span<Trial> trials, const observe::BenchLoad& load, double seconds) const;
  Result<> calibrate();
  observe::BenchLoad load_for(double seconds) const;
  double request_seconds(const observe::BenchSeconds& measured, const observe::BenchLoad& load) const;
  Result<TuneChoice> choose(std::string_view setting, const std::vector<Candidate>& candidates,
                            const observe::BenchLoad& load, double seconds);

  std::vector<Candidate> thread_candidates() const;
  Result<std::vector<Candidate>> placement_candidates() const;
  std::vector<Candidate> ubatch_candidates(int64_t n_prompt) const;
  Result<TuneChoice> choose_guesses(double seconds, std::vector<DraftKind>& kinds);
  Result<std::optional<double>> measure_text(std::string_view text, const std::vector<DraftKind>& kinds,
                                             double seconds);
  Result<double> measure_guesses(std::span<const int32_t> tokens, int64_t n_written, double seconds) const;

  LoadedModel& model_;
  SessionOptions best_;
  TuneGoal goal_;
  const CancelToken& cancel_;
  double prefill_token_seconds_ = 0, decode_token_seconds_ = 0;
};

}  // namespace tessera::cli
