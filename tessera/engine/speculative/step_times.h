// The time of a decoding step by its number of tokens, as measured. A step is mostly bound by the reading of weights,
// so a few more tokens cost little.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace tessera {

class StepTimes {
 public:
  /// Learns from a step of n_tokens, at least 1, that took `ms`. An outlier counts as twice the estimate.
  void learn(int64_t n_tokens, double ms);

  /// The estimate for n_tokens, at least 1. 0: nothing is measured yet.
  double ms(int64_t n_tokens) const;

  /// A step could have been wider and was not. Estimates of wide steps slowly fall, so that one is tried again after
  /// disturbed measurements.
  void note_narrow_step();

 private:
  // Steps of 2 to 3 tokens, 4 to 7, and so on.
  static constexpr size_t kClasses = 7;
  static size_t class_of(int64_t n_tokens);
  double slope(int64_t n_tokens) const;

  double first_ms_ = 0;                                   // of one token
  std::array<std::optional<double>, kClasses> slopes_{};  // by class: the share of first_ms_ that a further token adds
};

}  // namespace tessera
