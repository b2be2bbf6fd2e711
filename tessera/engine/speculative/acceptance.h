// The measured share of right guesses of a drafter, by confidence.
#pragma once

#include <array>

#include "tessera/base/index.h"
#include "tessera/engine/speculative/drafter.h"

namespace tessera {

class Acceptance {
 public:
  /// Starts with the drafter's own expectations, which count like a few measurements.
  explicit Acceptance(const Drafter& drafter) {
    for (int32_t i = 0; i < kConfidences; ++i) {
      const double prior = drafter.prior(i);
      by_confidence_[to_size(i)] = {.right = prior * kPriorWeight, .all = kPriorWeight};
      whole_.right += prior * kPriorWeight / kConfidences;
      whole_.all += kPriorWeight / kConfidences;
    }
  }

  void learn(int32_t confidence, bool is_right) {
    by_confidence_[to_size(confidence)].add(is_right);
    whole_.add(is_right);
  }
  /// The share of right guesses of a class, and of all.
  double of(int32_t confidence) const { return by_confidence_[to_size(confidence)].share(); }
  double of_all() const { return whole_.share(); }

 private:
  static constexpr double kPriorWeight = 4;
  static constexpr double kMemory = 64;  // guesses after which older ones hardly count

  struct Count {
    double right = 0, all = 0;

    double share() const { return right / all; }
    void add(bool is_right) {
      if (all >= kMemory) {
        right *= 1 - 1 / kMemory;
        all *= 1 - 1 / kMemory;
      }
      right += is_right ? 1 : 0;
      all += 1;
    }
  };

  std::array<Count, kConfidences> by_confidence_{};
  Count whole_{};
};

}  // namespace tessera
