#include "tessera/batch/batch.h"

#include <algorithm>

namespace tessera {

int64_t Batch::n_outputs() const { return std::ranges::count(tokens_, true, &BatchToken::wants_logits); }

Batch Batch::prompt(std::span<const int32_t> tokens, int32_t position, int32_t sequence) {
  Batch batch;
  for (const int32_t token : tokens) batch.add({.token = token, .position = position++, .sequence = sequence});
  if (!batch.tokens_.empty()) batch.tokens_.back().wants_logits = true;
  return batch;
}

std::vector<Range> split(const Batch& batch, int64_t n_ubatch) {
  std::vector<Range> parts;
  for (int64_t begin = 0; begin < batch.size(); begin += n_ubatch)
    parts.push_back({begin, std::min(begin + n_ubatch, batch.size())});
  return parts;
}

}  // namespace tessera
