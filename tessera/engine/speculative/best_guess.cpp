#include "tessera/engine/speculative/best_guess.h"

#include <algorithm>
#include <cmath>

#include "tessera/sample/log_probs.h"

namespace tessera {

DraftToken best_guess(std::span<const float> logits) {
  const sample::SoftmaxSum sum = sample::softmax_sum(logits);
  const auto most = std::ranges::find(logits, sum.highest);
  if (most == logits.end() || !(sum.log_sum >= 0)) return {};
  const auto confidence = static_cast<int32_t>(std::exp(-sum.log_sum) * kConfidences);
  return {.token = static_cast<int32_t>(most - logits.begin()), .confidence = std::min(confidence, kConfidences - 1)};
}

void average_in(double& average, double ms) {
  constexpr double kTimeShare = 0.1;  // of a new measurement
  average = average == 0 ? ms : average + kTimeShare * (ms - average);
}

}  // namespace tessera
