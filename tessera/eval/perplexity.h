// Perplexity: the exponential of the mean negative log-likelihood of a text's tokens. As llama.cpp measures it: each
// chunk's second half is scored, so that every scored token has at least n_ctx / 2 tokens before it.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/eval/chunks.h"

namespace tessera::eval {

/// -log p(token) under softmax(logits), token in range; not finite when the logits are not, or p is 0.
double negative_log_likelihood(std::span<const float> logits, int32_t token);

struct PerplexityEstimate {
  double ppl = 0;
  double error = 0;  // standard error: that of the mean of the log-likelihoods, times ppl
  int64_t n_tokens = 0;
};

class Perplexity {
 public:
  void add(double negative_log_likelihood);
  /// Of all that were added; zeros when none were.
  PerplexityEstimate estimate() const;

 private:
  double sum_ = 0, sum_of_squares_ = 0;
  int64_t n_ = 0;
};

/// The positions of a chunk whose logits are scored: those that predict its second half.
constexpr Range scored_positions(int64_t n_ctx) { return {n_ctx / 2, n_ctx - 1}; }

/// Scores what the logits after a position of a chunk say of the token that follows; positions outside
/// scored_positions() count for nothing. Error: format, when the likelihood is not finite.
Result<> score(Perplexity& perplexity, const Chunks& chunks, int64_t chunk, int64_t position,
               std::span<const float> logits);

}  // namespace tessera::eval
