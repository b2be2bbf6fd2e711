// Sums of exponentials over a vocabulary, and the selection of the greatest logits.
#include "tessera/sample/log_probs.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/vector_math.h"

namespace tessera::sample {
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

std::span<const TokenLogProb> TopLogProbs::find(std::span<const float> logits, const SoftmaxSum& sum, size_t n) {
  select_top(logits, n, best_);
  top_.clear();
  for (const Candidate& item : best_) top_.push_back({item.id, sum.log_p(item.logit)});
  return top_;
}

}  // namespace tessera::sample
