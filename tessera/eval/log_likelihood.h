// Computes the log-likelihood of tokens from rows of logits. Rows are distributed over threads. The bits do not
// depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/base/function_ref.h"
#include "tessera/base/thread_pool.h"
#include "tessera/sample/log_probs.h"

namespace tessera::eval {

/// Returns -log p(token) under softmax(logits), for a token in range. Not finite if the logits are not, or if p is 0.
double negative_log_likelihood(std::span<const float> logits, int32_t token);

/// Calls work(i) for each of n rows, distributed over the threads. Returns the error of the lowest i.
Result<> for_each_row(ThreadPool& threads, size_t n, FunctionRef<Result<>(size_t i)> work);

/// A token and the logits that predict it.
struct TokenRow {
  std::span<const float> logits;
  int32_t token = 0;
};

/// Computes negative_log_likelihood() of each row. out has as many elements as rows.
void negative_log_likelihoods(ThreadPool& threads, std::span<const TokenRow> rows, std::span<double> out);

}  // namespace tessera::eval
