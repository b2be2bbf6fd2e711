// How probable rows of logits make tokens. The softmax over the vocabulary is a pass over each row, rows are shared out
// among threads: nothing is kept but the sums, and the bits do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/base/function_ref.h"
#include "tessera/base/thread_pool.h"

namespace tessera::eval {

/// What softmax divides by: log p(i) = (logits[i] - highest) - log_sum.
struct SoftmaxSum {
  float highest = 0;
  double log_sum = 0;  // of exp(logit - highest); NaN where a logit is NaN or infinite, or all are -infinity

  double log_p(float logit) const { return (static_cast<double>(logit) - static_cast<double>(highest)) - log_sum; }
};

/// Of at least one logit.
SoftmaxSum softmax_sum(std::span<const float> logits);

/// -log p(token) under softmax(logits), token in range; not finite when the logits are not, or p is 0.
double negative_log_likelihood(std::span<const float> logits, int32_t token);

/// Calls work(i) for each of n rows, shared out among the threads. Error: that of the lowest i.
Result<> for_each_row(ThreadPool& threads, size_t n, FunctionRef<Result<>(size_t i)> work);

/// A token and the logits it is judged by.
struct TokenRow {
  std::span<const float> logits;
  int32_t token = 0;
};

/// negative_log_likelihood() of each row; out has as many.
void negative_log_likelihoods(ThreadPool& threads, std::span<const TokenRow> rows, std::span<double> out);

}  // namespace tessera::eval
