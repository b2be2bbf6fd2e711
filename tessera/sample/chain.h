// A chain of samplers turns logits into a token: logit_bias, the steps in their order, then dist or greedy;
// with mirostat, logit_bias, temperature and mirostat. One chain belongs to one sequence and to one thread at
// a time. The same parameters, seed, logits and accepted tokens give the same tokens on every run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/base/rng.h"
#include "tessera/sample/candidates.h"
#include "tessera/sample/history.h"
#include "tessera/sample/params.h"
#include "tessera/sample/sampler.h"
#include "tessera/sample/vocab_view.h"

namespace tessera::sample {

class Chain {
 public:
  /// A chain for sequences of at most n_ctx tokens; "last n" parameters of -1 look back n_ctx.
  /// Errors: invalid_argument as of validate(), for seed -1 (the caller draws one), a biased token that does
  /// not exist, an empty vocabulary, or n_ctx < 1.
  static Result<std::unique_ptr<Chain>> create(const SamplerParams& params, std::shared_ptr<const VocabView> vocab,
                                               int32_t n_ctx);

  /// The next token for logits [n_tokens]; it is not yet part of the text (accept() it). NaN counts as -inf;
  /// tokens at +inf share all probability. No allocation after the first call. Errors: mismatch for a wrong
  /// count; invalid_argument where every token ends at -inf.
  Result<int32_t> sample(std::span<const float> logits);

  /// A token joins the text, sampled or of the prompt. Error: invalid_argument when it does not exist.
  Result<> accept(int32_t token);

  /// Back to the state at creation, with its seed.
  void reset();

  /// A copy with the same text and random state: both go on alike. It has no candidates before it samples.
  std::unique_ptr<Chain> clone() const;

  /// What the last sample() chose from: the n most probable with their probabilities after the whole chain,
  /// most probable first, all summing to 1. Valid until the next call.
  std::span<const Candidate> top_candidates(size_t n);

  /// The accepted tokens that the chain remembers: at least the last n_prev.
  const History& history() const { return history_; }

 private:
  Chain(std::shared_ptr<const VocabView> vocab, uint64_t seed, size_t n_history)
      : vocab_(std::move(vocab)), seed_(seed), rng_(seed), history_(n_history) {}

  std::shared_ptr<const VocabView> vocab_;
  uint64_t seed_;
  Rng rng_;
  History history_;
  std::vector<std::unique_ptr<Sampler>> samplers_;
  Candidates candidates_;
};

}  // namespace tessera::sample
