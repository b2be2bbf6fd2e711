// Operations of an optimizer step. They write tensors (parameters, moments, sums of gradients) in place.
#pragma once

#include <cstddef>

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

/// The numbers of a step: an f32 vector that the caller fills before each run.
enum class Hyper : size_t {
  gradient_scale,  // first factor of gradients, for their mean and for clipping
  learning_rate,
  weight_decay,  // for parameters that decay, times the learning rate (Loshchilov and Hutter 2019)
  beta1,         // momentum; in adam the decay of the first moment
  beta2,
  epsilon,
  correction1,  // 1 - beta1^step, 1 - beta2^step
  correction2,
};
inline constexpr size_t kHyperEntries = 8;

struct DescendParams {
  bool decays = true;
  void list(ParamList& params) const { params.integer("decays", decays); }
};

/// The part of GraphBuilder that adds optimizer steps, which change tensors in place. hyper: see Hyper.
class OptimizerOps {
 public:
  /// sum += x; returns sum.
  Value accumulate(Value sum, Value x);
  /// m = beta1 * m + g; returns m.
  Value momentum(Value m, Value gradient, Value hyper);
  /// m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g^2; returns the direction
  /// (m / correction1) / (sqrt(v / correction2) + epsilon) (Kingma and Ba 2015).
  Value adam(Value m, Value v, Value gradient, Value hyper);
  /// w -= learning_rate * (direction + weight_decay * w). Also writes w to `rounded` (bf16), if present.
  Value descend(Value w, Value direction, Value hyper, Value rounded, const DescendParams& params);
};

}  // namespace tessera
