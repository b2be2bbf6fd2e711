// A chain of samplers, which turns logits into a token. It starts from the tokens that a mask allows, or from all, and
// runs logit_bias, the steps in their order, then dist, adaptive_p or greedy. With mirostat it runs logit_bias,
// temperature and mirostat. Steps of a program come before or after those of the order. A chain belongs to one sequence
// and is used by one thread at a time. Equal parameters, seed, logits and accepted tokens give equal tokens on every
// run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/sample/candidates.h"
#include "tessera/sample/history.h"
#include "tessera/sample/params.h"
#include "tessera/sample/program_step.h"
#include "tessera/sample/sampler.h"
#include "tessera/sample/seeded_rng.h"
#include "tessera/sample/token_mask.h"
#include "tessera/sample/vocab_view.h"

namespace tessera::sample {

class Chain {
 public:
  /// Creates a chain for sequences of at most n_ctx tokens. "last n" parameters of -1 cover n_ctx tokens. Errors:
  /// invalid_argument as in validate(), for seed -1 (the caller draws one), a biased token that does not exist, an
  /// empty vocabulary, or n_ctx < 1.
  static Result<std::unique_ptr<Chain>> create(const SamplerParams& params, std::shared_ptr<const VocabView> vocab,
                                               int32_t n_ctx);

  /// Replaces the biases. Errors: invalid_argument (a token that does not exist; a bias that is NaN or +inf; too many);
  /// then nothing changes.
  Result<> set_bias(std::span<const LogitBias> biases);

  /// Adds a step of a program, behind those that were added before at the same place.
  void add(std::unique_ptr<ProgramStep> step, StepPlace place);

  /// From now on, only tokens that the mask allows are chosen, and accept() adds tokens to it as well.
  void constrain(std::unique_ptr<TokenMask> mask) { mask_ = std::move(mask); }
  /// The mask, or null.
  TokenMask* mask() const { return mask_.get(); }

  /// Returns the next token for logits [n_tokens]. The token joins the text only by accept(). NaN counts as -inf, and
  /// tokens at +inf share all probability. Does not allocate after the first call, but for the mask. Errors: mismatch
  /// for a wrong number of logits; invalid_argument if every token ends at -inf; those of the mask.
  Result<int32_t> sample(std::span<const float> logits);

  /// Adds a token to the text. Error: invalid_argument if it does not exist or is not allowed.
  Result<> accept(int32_t token);
  /// Adds a token of the prompt, which the mask does not see. Error: invalid_argument if it does not exist.
  Result<> accept_prompt(int32_t token);

  /// Returns to the state at creation, including the seed; a mask returns to its start.
  void reset();

  /// Returns a copy with the same text and random state, which will behave like the original. The copy has no
  /// candidates until it samples.
  std::unique_ptr<Chain> clone() const;

  /// Returns the n most probable candidates of the last sample() with their probabilities after the whole chain, most
  /// probable first. The probabilities of all candidates sum to 1. Valid until the next call.
  std::span<const Candidate> top_candidates(size_t n);

  /// The accepted tokens stored by the chain: at least the last n_prev.
  const History& history() const { return history_; }

 private:
  Chain(std::shared_ptr<const VocabView> vocab, uint64_t seed, size_t n_history)
      : vocab_(std::move(vocab)), seed_(seed), rng_(seed), history_(n_history) {}
  Result<> assign(std::span<const float> logits);
  Result<> apply(ProgramStep& step);
  Result<> apply_steps(StepPlace place);

  struct AddedStep {
    std::unique_ptr<ProgramStep> step;
    StepPlace place;
  };

  std::shared_ptr<const VocabView> vocab_;
  uint64_t seed_;
  SeededRng rng_;
  History history_;
  std::unique_ptr<Sampler> bias_;                   // null: none
  std::vector<std::unique_ptr<Sampler>> samplers_;  // the last one chooses
  std::vector<AddedStep> added_;                    // of programs
  std::vector<TokenLogit> listed_;                  // reused by apply()
  Candidates candidates_;
  std::unique_ptr<TokenMask> mask_;
};

}  // namespace tessera::sample
