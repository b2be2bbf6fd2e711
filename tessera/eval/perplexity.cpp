#include "tessera/eval/perplexity.h"

#include <algorithm>
#include <cmath>

namespace tessera::eval {

double negative_log_likelihood(std::span<const float> logits, int32_t token) {
  const float highest = *std::ranges::max_element(logits);
  double sum = 0;  // of at least one 1, each term right to f32's rounding
  for (const float logit : logits) sum += static_cast<double>(std::exp(logit - highest));
  return std::log(sum) + (static_cast<double>(highest) - static_cast<double>(logits[static_cast<size_t>(token)]));
}

void Perplexity::add(double negative_log_likelihood) {
  sum_ += negative_log_likelihood;
  sum_of_squares_ += negative_log_likelihood * negative_log_likelihood;
  ++n_;
}

PerplexityEstimate Perplexity::estimate() const {
  if (n_ == 0) return {};
  const auto n = static_cast<double>(n_);
  const double mean = sum_ / n, ppl = std::exp(mean);
  const double variance = std::max(sum_of_squares_ / n - mean * mean, 0.0);
  return {.ppl = ppl, .error = n_ > 1 ? std::sqrt(variance / (n - 1)) * ppl : 0.0, .n_tokens = n_};
}

Result<> score(Perplexity& perplexity, const Chunks& chunks, int64_t chunk, int64_t position,
               std::span<const float> logits) {
  const Range scored = scored_positions(chunks.n_ctx());
  if (position < scored.begin || position >= scored.end) return {};
  const double nll = negative_log_likelihood(logits, chunks.tokens(chunk)[static_cast<size_t>(position + 1)]);
  if (!std::isfinite(nll))
    return fail(ErrorCode::format, "chunk {}, position {}: -log p of the next token is {}, want a finite number", chunk,
                position, nll);
  perplexity.add(nll);
  return {};
}

}  // namespace tessera::eval
