// Checks the tables of a sequence in a paged cache, for the operations that read K by position. Operand 1 of these
// operations is K. Operands 3 to 6 are positions, slots, blocks and valid (graph/ops/attention.h).
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "tessera/cpu/step.h"

namespace tessera::cpu {

/// The rows of a sequence in the block tables, and the range of positions of some of its tokens.
struct PagedSequence {
  const int32_t* blocks;
  const uint64_t* valid;
  int32_t first_position, last_position;
};

/// The sequence of consecutive tokens, which all have the sequence of the first. Empty after reporting a fault: a
/// sequence or position is out of range.
inline std::optional<PagedSequence> find_sequence(const Step& step, Worker& worker, Range tokens) {
  const auto *positions = step.in[3].row<const int32_t>(0), *sequences = step.in[4].row<const int32_t>(0);
  const int64_t n_positions = step.in[5].shape()[0] * kBlockTokens, n_sequences = step.in[5].shape()[1];
  const int32_t sequence = sequences[tokens.begin];
  if (sequence < 0 || sequence >= n_sequences) {
    worker.fault.report(step, "sequence", sequence, n_sequences);
    return std::nullopt;
  }
  int32_t first = std::numeric_limits<int32_t>::max(), last = 0;
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    if (positions[t] < 0 || positions[t] >= n_positions) {
      worker.fault.report(step, "position", positions[t], n_positions);
      return std::nullopt;
    }
    first = std::min(first, positions[t]), last = std::max(last, positions[t]);
  }
  return PagedSequence{step.in[5].row<const int32_t>(sequence), step.in[6].row<const uint64_t>(sequence), first, last};
}

/// Whether logical blocks [begin, end) are blocks of the cache, or absent. If not, reports a fault.
inline bool check_blocks(const Step& step, Worker& worker, const int32_t* blocks, int64_t begin, int64_t end) {
  const int64_t n_physical = step.in[1].shape()[3];
  for (int64_t i = begin; i < end; ++i)
    if (blocks[i] < -1 || blocks[i] >= n_physical) {
      worker.fault.report(step, "block", blocks[i], n_physical);
      return false;
    }
  return true;
}

/// The positions of a range that are in logical block b, as a mask.
inline uint64_t mask_of(int64_t b, Range positions) {
  const int64_t begin = std::clamp<int64_t>(positions.begin - b * kBlockTokens, 0, kBlockTokens);
  const int64_t end = std::clamp<int64_t>(positions.end - b * kBlockTokens, 0, kBlockTokens);
  return begin >= end ? 0 : ~uint64_t{0} >> (kBlockTokens - (end - begin)) << begin;
}

/// The end of the run of tokens from `begin` on that belong to one sequence, of at most `most` tokens.
inline int64_t end_of_run(const Step& step, int64_t begin, int64_t most) {
  const auto* sequences = step.in[4].row<const int32_t>(0);
  const int64_t n_tokens = step.in[0].shape()[2];
  int64_t end = begin + 1;
  while (end < n_tokens && end - begin < most && sequences[end] == sequences[begin]) ++end;
  return end;
}

}  // namespace tessera::cpu
