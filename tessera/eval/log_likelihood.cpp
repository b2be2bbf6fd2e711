#include "tessera/eval/log_likelihood.h"

#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/base/partition.h"

namespace tessera::eval {

double negative_log_likelihood(std::span<const float> logits, int32_t token) {
  return -sample::softmax_sum(logits).log_p(logits[to_size(token)]);
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
