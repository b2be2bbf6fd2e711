// Nodes without operands, which compute nothing. The code that adds one sets its type and layout.
#include "tessera/graph/op_def.h"

namespace tessera {

namespace {

Result<TensorSpec> infer_leaf(Operands) { return fail(ErrorCode::internal, "a leaf has no shape rule"); }

Cost cost_of_nothing(const Graph&, const Node&) { return {}; }

consteval OpDef leaf(void (*gradient)(Gradient&)) {
  return {.n_operands = 0,
          .infer = shape_rule<infer_leaf>,
          .gradient = gradient,
          .cost = cost_of_nothing,
          .in_place = kNoOperand,
          .writes = kNoOperand};
}

}  // namespace

const OpDef op_defs::input = leaf(gradient_of_constant);
const OpDef op_defs::tensor = leaf(gradient_of_constant);
const OpDef op_defs::copy = leaf(kForwardOnly);

}  // namespace tessera
