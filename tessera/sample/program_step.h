// A step of a chain that a program brings: it sees the candidates as a list and changes their logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tessera/base/result.h"

namespace tessera::sample {

struct TokenLogit {
  int32_t id;
  float logit;
};

class ProgramStep {
 public:
  virtual ~ProgramStep() = default;

  /// Changes the logits of the candidates; -infinity or NaN removes one. Ids stay as they are. An error ends
  /// Chain::sample().
  virtual Result<> apply(std::span<TokenLogit> candidates) = 0;
  /// Notes that a token joins the text, also one of the prompt.
  virtual void accept(int32_t token) = 0;
  /// Returns to the state at creation.
  virtual void reset() = 0;
  virtual std::unique_ptr<ProgramStep> clone() const = 0;
};

/// The place of a step in a chain.
enum class StepPlace : uint8_t {
  first,  // after the biases, before the steps of the order
  last,   // after these steps, before the sampler that chooses the token
};

}  // namespace tessera::sample
