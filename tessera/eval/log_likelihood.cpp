#include "tessera/eval/log_likelihood.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/base/partition.h"
#include "tessera/eval/vector_math.h"

namespace tessera::eval {

namespace {

// At most this many floats are summed in f32, so that the rounding error stays below that of the logits.
constexpr size_t kSumBlock = 256;

double sum_of_exp(std::span<const float> logits, float shift) {
  double sum = 0;
  size_t i = 0;
  while (i + 4 <= logits.size()) {
    F32x4 part = splat(0.0f);
    for (const size_t end = std::min(logits.size() / 4 * 4, i + kSumBlock); i < end; i += 4)
      part += exp4(load4(&logits[i]) - shift);
    sum += sum_of(part);
  }
  for (; i < logits.size(); ++i) sum += static_cast<double>(exp4(splat(logits[i] - shift))[0]);
  return sum;
}

}  // namespace

SoftmaxSum softmax_sum(std::span<const float> logits) {
  const float highest = extremes_of(logits).highest;
  if (!std::isfinite(highest)) return {highest, static_cast<double>(NAN)};
  // The sum also detects a NaN that the search for the maximum skipped.
  return {highest, std::log(sum_of_exp(logits, highest))};
}

double negative_log_likelihood(std::span<const float> logits, int32_t token) {
  return -softmax_sum(logits).log_p(logits[to_size(token)]);
}

Result<> for_each_row(ThreadPool& threads, size_t n, FunctionRef<Result<>(size_t i)> work) {
  std::vector<Result<>> done(to_size(threads.size()));
  threads.run([&](ThreadContext& thread) {
    const Range mine = partition(static_cast<int64_t>(n), thread.count, thread.index);
    Result<>& own = done[to_size(thread.index)];
    for (int64_t i = mine.begin; i < mine.end && own; ++i) own = work(to_size(i));
  });
  for (Result<>& own : done) TESSERA_TRY(std::move(own));
  return {};
}

void negative_log_likelihoods(ThreadPool& threads, std::span<const TokenRow> rows, std::span<double> out) {
  const auto judge = [&](size_t i) -> Result<> {
    out[i] = negative_log_likelihood(rows[i].logits, rows[i].token);
    return {};
  };
  static_cast<void>(for_each_row(threads, rows.size(), judge));  // cannot fail
}

}  // namespace tessera::eval
