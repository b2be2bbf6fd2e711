// The guess of a model: its most probable next token.
#pragma once

#include <span>

#include "tessera/engine/speculative/drafter.h"

namespace tessera {

/// The token with the highest logit, with its probability as confidence. Infinite logits and NaN have the least one.
DraftToken best_guess(std::span<const float> logits);

/// Adds a measured time to a running average, whose first value is 0.
void average_in(double& average, double ms);

}  // namespace tessera
