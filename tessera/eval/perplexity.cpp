#include "tessera/eval/perplexity.h"

#include <cmath>

namespace tessera::eval {

PerplexityEstimate perplexity_of(const RunningMean& negative_log_likelihood) {
  if (negative_log_likelihood.n() == 0) return {};
  const Measured mean = negative_log_likelihood.mean();
  const double ppl = std::exp(mean.value);
  return {.ppl = ppl, .error = mean.error * ppl, .n_tokens = negative_log_likelihood.n()};
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
