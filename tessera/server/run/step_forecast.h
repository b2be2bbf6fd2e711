// A forecast of the time of a step. It decides how many prompt tokens a step may compute so that running streams get
// their next token within the step's time target.
//
// The time is a sum of four terms: a constant, the prompt tokens, the pairs of a token and a position that it attends
// to, and the tokens of decoding sequences. Recursive least squares fit the four rates to the measured steps; older
// steps count less (Haykin, "Adaptive Filter Theory", chapter 10).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tessera::server {

/// The work of a step.
struct StepWork {
  int64_t n_prefill = 0;   // tokens of prompts
  double n_pairs = 0;      // of a token and a position that it attends to
  int64_t n_decoding = 0;  // tokens of sequences that generate
  double score_work = 0;   // of the logits by which prompts are scored, in tokens of prompts

  /// Adds n_tokens of a prompt from a position on, each of which attends to all before it.
  /// token_score_work: the score_work of each.
  void add_prefill(int64_t position, int64_t n_tokens, double token_score_work = 0);
  /// Adds a text of an encoder, each of whose n_tokens attends to all.
  void add_encoded(int64_t n_tokens);
};

class StepForecast {
 public:
  /// token_ms: a first guess of the time of one token.
  explicit StepForecast(double token_ms);

  double ms(const StepWork& work) const;
  /// Learns from a step that took step_ms. Extreme values, as after a pause of the process, count as four times the
  /// forecast.
  void learn(const StepWork& work, double step_ms);

  /// The largest number of prompt tokens, of at most n_most and from `position` on, whose step takes at most target_ms
  /// beside `decoding`. At least min(n_most, kLeastPrefill). score_work: that of each token.
  int64_t prefill_budget(const StepWork& decoding, int64_t position, int64_t n_most, double target_ms,
                         double score_work = 0) const;

  static constexpr int64_t kLeastPrefill = 16;

 private:
  static constexpr size_t kNTerms = 4;
  using Vector = std::array<double, kNTerms>;
  static Vector terms(const StepWork& work);

  Vector rates_;
  std::array<Vector, kNTerms> covariance_;
  int64_t n_learnt_ = 0;
};

}  // namespace tessera::server
