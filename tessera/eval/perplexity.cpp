#include "tessera/eval/perplexity.h"

#include <algorithm>
#include <cmath>

namespace tessera::eval {

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

Result<> score(Perplexity& perplexity, const Chunks& chunks, std::span<const ChunkRow> rows, ThreadPool& threads) {
  const Range scored = scored_positions(chunks.n_ctx(), chunks.stride());
  std::vector<TokenRow> wanted;
  std::vector<const ChunkRow*> places;
  for (const ChunkRow& row : rows) {
    if (row.position < scored.begin || row.position >= scored.end) continue;
    wanted.push_back({row.logits, chunks.token(row.chunk, row.position + 1)});
    places.push_back(&row);
  }
  std::vector<double> nll(wanted.size());
  negative_log_likelihoods(threads, wanted, nll);
  for (size_t i = 0; i < nll.size(); ++i) {
    if (!std::isfinite(nll[i]))
      return fail(ErrorCode::format, "chunk {}, position {}: -log p of the next token is {}, want a finite number",
                  places[i]->chunk, places[i]->position, nll[i]);
    perplexity.add(nll[i]);
  }
  return {};
}

}  // namespace tessera::eval
