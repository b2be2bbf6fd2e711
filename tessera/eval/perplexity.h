// Perplexity: the exponential of the mean negative log-likelihood of a text's tokens. As llama.cpp measures it: each
// chunk's second half is scored, so that every scored token has at least n_ctx / 2 tokens before it; or, where chunks
// overlap, what each has beyond the one before.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/eval/chunks.h"
#include "tessera/eval/log_likelihood.h"
#include "tessera/eval/measured.h"

namespace tessera::eval {

struct PerplexityEstimate {
  double ppl = 0;
  double error = 0;  // standard error: that of the mean of the log-likelihoods, times ppl
  int64_t n_tokens = 0;
};

/// Of the mean negative log-likelihood; zeros where there are no tokens.
PerplexityEstimate perplexity_of(const RunningMean& negative_log_likelihood);

class Perplexity {
 public:
  void add(double negative_log_likelihood) { mean_.add(negative_log_likelihood); }
  /// Of all that were added; zeros when none were.
  PerplexityEstimate estimate() const { return perplexity_of(mean_); }

 private:
  RunningMean mean_;
};

/// Scores what rows of logits say of the tokens that follow them; positions outside scored_positions() count for
/// nothing. Error: format, when a likelihood is not finite.
Result<> score(Perplexity& perplexity, const Chunks& chunks, std::span<const ChunkRow> rows, ThreadPool& threads);

}  // namespace tessera::eval
