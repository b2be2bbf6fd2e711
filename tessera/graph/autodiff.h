// Reverse-mode differentiation: appends the nodes that compute the gradients of a value to its graph.
#pragma once

#include <functional>
#include <span>

#include "tessera/graph/builder.h"

namespace tessera {

/// Called with each contribution to the gradient of a parameter as soon as it can be computed, in a fixed order. A
/// contribution is f32, contiguous and of the parameter's shape. Contributions to one parameter add up.
using GradientSink = std::function<void(const Tensor& parameter, Value gradient)>;

struct GradientOptions {
  /// Values, in graph order, that are kept until the backward pass needs them. Values between two checkpoints are
  /// recomputed there, with identical bits, and need no memory until then. Values after the last checkpoint are kept.
  /// Empty: all values are kept.
  std::span<const Value> checkpoints{};
};

/// Differentiates y with respect to parameters, which are tensor leaves of the graph. dy, of y's shape, is the gradient
/// of the minimized quantity with respect to y. Errors stick to the builder: unsupported (an operation without gradient
/// between a parameter and y), invalid_argument (dy of another shape).
void add_gradients(GraphBuilder& b, Value y, Value dy, std::span<const Tensor* const> parameters,
                   const GradientSink& sink, const GradientOptions& options = {});

}  // namespace tessera
