// The order in which an epoch visits the windows of a dataset. The permutation is computed, not stored, so a run can
// resume at any step from the step's number alone.
#pragma once

#include <array>
#include <cstdint>

namespace tessera::train {

/// A permutation of [0, n), selected by a key: a balanced Feistel network (Luby and Rackoff 1988) over the smallest
/// even number of bits that holds n. Results outside [0, n) pass through it again (Black and Rogaway 2002).
class Permutation {
 public:
  /// n > 0, at most 2^62.
  Permutation(uint64_t n, uint64_t key);

  /// Returns the image of i < n. Uses constant memory. Fewer than four passes on average; for small n, 256 / n passes.
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int kRounds = 6;
  // With halves of one or two bits, most permutations would be unreachable.
  static constexpr int kMinHalfBits = 4;

  uint64_t n_;
  int half_bits_ = kMinHalfBits;
  std::array<uint64_t, kRounds> keys_{};
};

}  // namespace tessera::train
