// Log-probabilities of tokens under the softmax of raw logits, before any sampler: of given tokens, and of the most
// probable ones. The server sends them to clients, and eval sums them. A row of logits is read, but never copied or
// sorted. The bits are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/sample/candidates.h"

namespace tessera::sample {

/// The denominator of the softmax: log p(i) = (logits[i] - highest) - log_sum.
struct SoftmaxSum {
  float highest = 0;
  double log_sum = 0;  // of exp(logit - highest); NaN if a logit is NaN or +infinity, or all are -infinity

  double log_p(float logit) const { return (static_cast<double>(logit) - static_cast<double>(highest)) - log_sum; }
  /// The logarithm of the sum of exp(logit).
  double log_sum_exp() const { return static_cast<double>(highest) + log_sum; }
};

/// Computes the denominator in one pass for the maximum and one for the sum. Requires at least one logit.
SoftmaxSum softmax_sum(std::span<const float> logits);

struct TokenLogProb {
  int32_t id = 0;
  double log_p = 0;
};

/// Finds the most probable tokens of a row after another. Its buffer is reused.
class TopLogProbs {
 public:
  /// Returns the n most probable tokens of logits, best first, and on equal logits the lower id first. `sum` is that of
  /// the same logits. Tokens whose logit is NaN or -infinity are left out. Valid until the next call.
  std::span<const TokenLogProb> find(std::span<const float> logits, const SoftmaxSum& sum, size_t n);

 private:
  std::vector<Candidate> best_;
  std::vector<TokenLogProb> top_;
};

}  // namespace tessera::sample
