// The gradient of one operation. void gradient_<op>(Gradient& g) is defined beside the operation's shape rule. Given
// the gradient of the result, it adds nodes for the gradients of the operands to the graph.
#pragma once

#include "tessera/graph/builder.h"

namespace tessera {

class BackwardPass;

class Gradient {
 public:
  GraphBuilder& b;

  /// The operation's node: parameters, type, shape.
  const Node& node() const { return node_; }
  template <class Params>
  const Params& params() const {
    return std::get<Params>(node_.params);
  }
  /// Operand i, and the result. They may be recomputed for this, with identical bits.
  Value in(size_t i);
  Value out();
  TensorSpec spec(size_t i) const;
  /// The routes in operand i, a result of expert_routes.
  ExpertRoutes routes(size_t i);
  /// The gradient of the result: f32, contiguous, of its shape.
  Value dy() const { return dy_; }
  /// True if operand i depends on a parameter. If it does not, give() has no effect on the result.
  bool wants(size_t i) const;
  /// Adds d to the gradient of operand i. d is f32, contiguous and of the operand's shape.
  void give(size_t i, Value d);
  /// The same for an operand that was repeated to the shape of d: sums d over the repeated dimensions.
  void give_sum(size_t i, Value d) { give(i, b.spec(d).shape() == spec(i).shape() ? d : b.sum_to(d, spec(i).shape())); }
  /// Records the error "gradient of <the operation>: why".
  void fail_with(ErrorCode code, std::string_view why);

 private:
  friend class BackwardPass;
  Gradient(GraphBuilder& builder, BackwardPass& pass, NodeId id, Value dy);
  BackwardPass& pass_;
  NodeId id_;
  Node node_;  // a copy: the graph grows
  Value dy_;
};

}  // namespace tessera
