#include "tessera/graph/ops/loss.h"

#include "tessera/graph/op_def.h"

namespace tessera {

Value LossOps::cross_entropy(Value logits, Value targets) {
  return add_op(*this, Op::cross_entropy, {logits, targets});
}

Value LossOps::cross_entropy_grad(Value logits, Value targets, Value d_loss) {
  return add_op(*this, Op::cross_entropy_grad, {logits, targets, d_loss});
}

namespace {

Result<> require_targets(Operands x) {
  TESSERA_TRY(require_f32_rows(*x[0], "logits"));
  const Shape& logits = x[0]->shape();
  if (logits[0] < 1 || logits[2] != 1 || logits[3] != 1)
    return fail(ErrorCode::invalid_argument, "logits {}, want [n_vocab, n_tokens]", to_string(logits));
  return require_i32_vector(*x[1], "targets", logits[1]);
}

Result<TensorSpec> infer_cross_entropy(Operands x) {
  TESSERA_TRY(require_targets(x));
  return contiguous(DType::f32, {1, x[0]->shape()[1]});
}

Result<TensorSpec> infer_cross_entropy_grad(Operands x) {
  TESSERA_TRY(require_targets(x));
  TESSERA_TRY(require_f32_rows(*x[2], "d_loss"));
  if (x[2]->shape() != Shape{1, x[0]->shape()[1]})
    return fail(ErrorCode::invalid_argument, "d_loss {}, want one a token", to_string(x[2]->shape()));
  return contiguous(DType::f32, x[0]->shape());
}

void gradient_cross_entropy(Gradient& g) { g.give(0, g.b.cross_entropy_grad(g.in(0), g.in(1), g.dy())); }

}  // namespace

const OpDef op_defs::cross_entropy = {.n_operands = 2,
                                      .infer = shape_rule<infer_cross_entropy>,
                                      .gradient = gradient_cross_entropy,
                                      .cost = cost_of_memory,
                                      .in_place = kNoOperand,
                                      .writes = kNoOperand};
const OpDef op_defs::cross_entropy_grad = {.n_operands = 3,
                                           .infer = shape_rule<infer_cross_entropy_grad>,
                                           .gradient = kForwardOnly,
                                           .cost = cost_of_memory,
                                           .in_place = operands(0),
                                           .writes = kNoOperand};

}  // namespace tessera
