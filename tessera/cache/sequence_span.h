// The positions of each sequence among the tokens of a micro-batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/batch/batch.h"

namespace tessera {

/// The lowest and highest position of a sequence, and the number of its tokens.
struct SequenceSpan {
  int32_t sequence, low, high;
  int64_t n_tokens;
};

/// One span per sequence, in the order of sequences.
std::vector<SequenceSpan> spans_of(std::span<const BatchToken> tokens);

}  // namespace tessera
