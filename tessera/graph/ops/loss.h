// Loss functions for training.
#pragma once

#include "tessera/graph/value.h"

namespace tessera {

/// The part of GraphBuilder that adds losses.
class LossOps {
 public:
  /// -ln softmax(logits)[target] of each row of logits [n_vocab, t], for targets i32 [t]: [1, t]. 0 for a target of -1.
  /// A target out of range fails the run.
  Value cross_entropy(Value logits, Value targets);
  /// (softmax(logits) - [target]) * d_loss of each row, or 0 for a target of -1. d_loss [1, t].
  Value cross_entropy_grad(Value logits, Value targets, Value d_loss);
};

}  // namespace tessera
