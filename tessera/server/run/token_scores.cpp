#include "tessera/server/run/token_scores.h"

#include <algorithm>

namespace tessera::server {

namespace {

// In the order of the most probable tokens: of equal logits, that of the lower id comes first.
int64_t rank_of(std::span<const float> logits, size_t token) {
  const float own = logits[token];
  const auto n_greater = std::ranges::count_if(logits, [own](float logit) { return logit > own; });
  return 1 + n_greater + std::ranges::count(logits.first(token), own);
}

}  // namespace

TokenProbs score_token(std::span<const float> logits, int32_t token, size_t n_top, sample::TopLogProbs& buffer) {
  const auto index = static_cast<size_t>(token);
  const sample::SoftmaxSum sum = sample::softmax_sum(logits);
  TokenProbs probs;
  probs.chosen = {token, static_cast<float>(sum.log_p(logits[index]))};
  probs.rank = rank_of(logits, index);
  const auto top = buffer.find(logits, sum, n_top);
  probs.top.reserve(top.size());
  for (const sample::TokenLogProb& one : top) probs.top.push_back({one.id, static_cast<float>(one.log_p)});
  return probs;
}

}  // namespace tessera::server
