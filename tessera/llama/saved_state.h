// States of contexts as bytes, in a form of our own: some tokens of the program, and the saved sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::llama {

struct SavedSequence {
  int32_t sequence = 0;
  std::span<const std::byte> bytes{};
};

struct SavedState {
  std::vector<int32_t> tokens{};
  std::vector<SavedSequence> sequences{};
};

/// The size of pack_state()'s result, by the sizes of its sequences.
uint64_t packed_state_bytes(size_t n_tokens, std::span<const uint64_t> sequence_bytes);
std::vector<std::byte> pack_state(const SavedState& state);
/// The parts of a state, which stay in `bytes`. Errors: format (no state of ours, or damaged); unsupported (version).
Result<SavedState> unpack_state(std::span<const std::byte> bytes);
/// The most bytes of a state of sequences, each of which has at most so many.
uint64_t most_state_bytes(uint64_t of_sequence, uint64_t n_sequences);
/// The size that a state claims by its first bytes; 0 if they are no state's.
size_t claimed_state_bytes(const std::byte* bytes);

}  // namespace tessera::llama
