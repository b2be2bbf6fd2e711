// Perplexity: the exponential of the mean negative log-likelihood of a text's tokens, measured like in llama.cpp. The
// second half of each chunk is scored, so that every scored token has at least n_ctx / 2 tokens before it. If chunks
// overlap, the tokens that the previous chunk does not contain are scored.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/eval/chunks.h"
#include "tessera/eval/log_likelihood.h"
#include "tessera/eval/measured.h"

namespace tessera::eval {

struct PerplexityEstimate {
  double ppl = 0;
  double error = 0;  // standard error: the error of the mean log-likelihood times ppl
  int64_t n_tokens = 0;
};

/// Returns the estimate for a mean negative log-likelihood; zeros without tokens.
PerplexityEstimate perplexity_of(const RunningMean& negative_log_likelihood);

class Perplexity {
 public:
  void add(double negative_log_likelihood) { mean_.add(negative_log_likelihood); }
  /// Returns the estimate for all added values; zeros if there are none.
  PerplexityEstimate estimate() const { return perplexity_of(mean_); }
  /// The mean of the added values and its standard error.
  Measured mean() const { return mean_.mean(); }

 private:
  RunningMean mean_;
};

/// Scores the next tokens with rows of logits. Positions outside scored_positions() are ignored. Errors: format (a
/// likelihood is not finite).
Result<> score(Perplexity& perplexity, const Chunks& chunks, std::span<const ChunkRow> rows, ThreadPool& threads);

}  // namespace tessera::eval
