// The order in which an epoch visits the windows of a dataset: a permutation that is computed, not stored, so that a
// run that resumes at any step needs nothing but the step's number.
#pragma once

#include <array>
#include <cstdint>

namespace tessera::train {

/// A permutation of [0, n) that a key chooses: a balanced Feistel network (Luby and Rackoff 1988) over the smallest
/// even number of bits that holds n; what lands outside [0, n) is sent through it again (Black and Rogaway 2002).
class Permutation {
 public:
  /// n > 0, at most 2^62.
  Permutation(uint64_t n, uint64_t key);

  /// Where i < n goes. Constant memory; fewer than four passes in the mean, for small n kMinDomain / n.
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int kRounds = 6;
  // Halves of a bit or two would leave most permutations out of reach.
  static constexpr int kMinHalfBits = 4;

  uint64_t n_;
  int half_bits_ = kMinHalfBits;
  std::array<uint64_t, kRounds> keys_{};
};

}  // namespace tessera::train
