#include "tessera/graph/ops/optimizer.h"

#include "tessera/graph/op_def.h"

namespace tessera {

Value OptimizerOps::accumulate(Value sum, Value x) { return add_op_in_place(*this, Op::accumulate, {sum, x}); }

Value OptimizerOps::momentum(Value m, Value gradient, Value hyper) {
  return add_op_in_place(*this, Op::momentum, {m, gradient, hyper});
}

Value OptimizerOps::adam(Value m, Value v, Value gradient, Value hyper) {
  return add_op(*this, Op::adam, {m, v, gradient, hyper});
}

Value OptimizerOps::descend(Value w, Value direction, Value hyper, Value rounded, const DescendParams& params) {
  return add_op_in_place(*this, Op::descend, {w, direction, hyper, rounded}, params);
}

namespace {

// Fails unless the first n_same operands are f32, contiguous and of one shape.
Result<> require_same(Operands x, size_t n_same) {
  for (size_t i = 0; i < n_same; ++i)
    if (x[i]->dtype != DType::f32 || !is_contiguous(x[i]->dtype, x[i]->layout) || x[i]->shape() != x[0]->shape())
      return fail(ErrorCode::invalid_argument, "operand {} is {} {}, want contiguous f32 {}", i, info(x[i]->dtype).name,
                  to_string(x[i]->shape()), to_string(x[0]->shape()));
  return {};
}

// The same, followed by the numbers of the step.
Result<> require_step(Operands x, size_t n_same) {
  TESSERA_TRY(require_same(x, n_same));
  TESSERA_TRY(require_f32_rows(*x[n_same], "numbers of the step"));
  if (x[n_same]->shape() != Shape{kHyperEntries})
    return fail(ErrorCode::invalid_argument, "numbers of the step {}, want [{}]", to_string(x[n_same]->shape()),
                kHyperEntries);
  return {};
}

Result<TensorSpec> infer_accumulate(Operands x) {
  TESSERA_TRY(require_same(x, 2));
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> infer_momentum(Operands x) {
  TESSERA_TRY(require_step(x, 2));
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> infer_adam(Operands x) {
  TESSERA_TRY(require_step(x, 3));
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> infer_descend(Operands x, const DescendParams&) {
  TESSERA_TRY(require_step(x, 2));
  if (x.size() == 4 && x[3] != nullptr &&
      (x[3]->shape() != x[0]->shape() || x[3]->dtype != DType::bf16 || !is_contiguous(DType::bf16, x[3]->layout)))
    return fail(ErrorCode::invalid_argument, "the rounded copy is {} {}, want contiguous bf16 {}",
                info(x[3]->dtype).name, to_string(x[3]->shape()), to_string(x[0]->shape()));
  return contiguous(DType::f32, x[0]->shape());
}

}  // namespace

const OpDef op_defs::accumulate = {.n_operands = 2,
                                   .infer = shape_rule<infer_accumulate>,
                                   .gradient = kForwardOnly,
                                   .cost = cost_of_memory,
                                   .in_place = kNoOperand,
                                   .writes = operands(0)};
const OpDef op_defs::momentum = {.n_operands = 3,
                                 .infer = shape_rule<infer_momentum>,
                                 .gradient = kForwardOnly,
                                 .cost = cost_of_memory,
                                 .in_place = kNoOperand,
                                 .writes = operands(0)};
const OpDef op_defs::adam = {.n_operands = 4,
                             .infer = shape_rule<infer_adam>,
                             .gradient = kForwardOnly,
                             .cost = cost_of_memory,
                             .in_place = operands(2),
                             .writes = operands(0, 1)};
const OpDef op_defs::descend = {.n_operands = {3, 4},
                                .infer = shape_rule<infer_descend>,
                                .gradient = kForwardOnly,
                                .cost = cost_of_memory,
                                .in_place = kNoOperand,
                                .writes = operands(0, 3)};

}  // namespace tessera
