// Reverse-mode differentiation: appends to a graph the nodes that compute the gradients of one of its values.
#pragma once

#include <functional>
#include <span>

#include "tessera/graph/builder.h"

namespace tessera {

/// Called with each contribution to the gradient of a parameter as soon as it can be computed, in a fixed order: f32,
/// contiguous, of the parameter's shape. Contributions to one parameter add up.
using GradientSink = std::function<void(const Tensor& parameter, Value gradient)>;

struct GradientOptions {
  /// Values, in the order of the graph, that stay until they are needed on the way back. What lies between two of them
  /// is computed anew there, to the same bits, and takes no memory until then; what follows the last stays. Empty:
  /// everything stays.
  std::span<const Value> checkpoints{};
};

/// Differentiates y with respect to parameters, tensors that are leaves of the graph: dy, of y's shape, is the gradient
/// of what is minimized with respect to y. Errors stick to the builder: unsupported (an operation without gradient
/// between a parameter and y), invalid_argument (dy of another shape).
void add_gradients(GraphBuilder& b, Value y, Value dy, std::span<const Tensor* const> parameters,
                   const GradientSink& sink, const GradientOptions& options = {});

}  // namespace tessera
