// The gradient of one operation, written beside its shape rule: void gradient_<op>(Gradient& g) adds to the graph what
// the gradients of its operands are made of, given that of its result.
#pragma once

#include "tessera/graph/builder.h"

namespace tessera {

class BackwardPass;

class Gradient {
 public:
  GraphBuilder& b;

  /// The operation: its parameters, type, shape.
  const Node& node() const { return node_; }
  template <class Params>
  const Params& params() const {
    return std::get<Params>(node_.params);
  }
  /// Operand i, and the result. They may be computed anew here, to the same bits.
  Value in(size_t i);
  Value out();
  TensorSpec spec(size_t i) const;
  /// Operand i, which expert_routes made.
  ExpertRoutes routes(size_t i);
  /// The gradient of the result: f32, contiguous, of its shape.
  Value dy() const { return dy_; }
  /// Whether a parameter lies behind operand i. give() for one behind which none lies adds nothing to the result.
  bool wants(size_t i) const;
  /// Adds to the gradient of operand i: f32, contiguous, of its shape.
  void give(size_t i, Value d);
  /// The same for an operand that was repeated to the shape of d: summed over what it was repeated along.
  void give_sum(size_t i, Value d) { give(i, b.spec(d).shape() == spec(i).shape() ? d : b.sum_to(d, spec(i).shape())); }
  /// "gradient of <the operation>: why"
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
