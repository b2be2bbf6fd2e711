#include "tessera/cache/sequence_span.h"

#include <algorithm>

namespace tessera {

std::vector<SequenceSpan> spans_of(std::span<const BatchToken> tokens) {
  std::vector<SequenceSpan> spans;
  for (const BatchToken& t : tokens) {
    if (spans.empty() || spans.back().sequence != t.sequence) spans.push_back({t.sequence, t.position, t.position, 0});
    spans.back().low = std::min(spans.back().low, t.position);
    spans.back().high = std::max(spans.back().high, t.position);
    ++spans.back().n_tokens;
  }
  std::ranges::stable_sort(spans, {}, &SequenceSpan::sequence);
  size_t n = 0;
  for (const SequenceSpan& span : spans) {
    if (n == 0 || spans[n - 1].sequence != span.sequence) {
      spans[n++] = span;
      continue;
    }
    spans[n - 1].low = std::min(spans[n - 1].low, span.low);
    spans[n - 1].high = std::max(spans[n - 1].high, span.high);
    spans[n - 1].n_tokens += span.n_tokens;
  }
  spans.resize(n);
  return spans;
}

}  // namespace tessera
