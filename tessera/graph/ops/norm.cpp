#include "tessera/graph/ops/norm.h"

#include <cmath>

#include "tessera/graph/op_def.h"

namespace tessera {

Value NormOps::soft_max(Value x) { return add_op(*this, Op::soft_max, {x}); }
Value NormOps::rms_norm(Value x, Value weight, float eps) {
  return add_op(*this, Op::rms_norm, {x, weight}, NormParams{eps});
}
Value NormOps::layer_norm(Value x, Value weight, Value bias, float eps) {
  return add_op(*this, Op::layer_norm, {x, weight, bias}, NormParams{eps});
}
Value NormOps::l2_norm(Value x, float eps) { return add_op(*this, Op::l2_norm, {x}, NormParams{eps}); }
Value NormOps::row_sum(Value x) { return add_op(*this, Op::row_sum, {x}); }
Value NormOps::sum_squares(Value x) { return add_op(*this, Op::sum_squares, {x}); }
Value NormOps::soft_max_grad(Value y, Value dy) { return add_op(*this, Op::soft_max_grad, {y, dy}); }
Value NormOps::rms_norm_grad(Value x, Value weight, Value dy, float eps) {
  return add_op(*this, Op::rms_norm_grad, {x, weight, dy}, NormParams{eps});
}
Value NormOps::layer_norm_grad(Value x, Value weight, Value dy, float eps) {
  return add_op(*this, Op::layer_norm_grad, {x, weight, dy}, NormParams{eps});
}
Value NormOps::l2_norm_grad(Value x, Value dy, float eps) {
  return add_op(*this, Op::l2_norm_grad, {x, dy}, NormParams{eps});
}

namespace {

Result<TensorSpec> infer_soft_max(Operands x) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  return contiguous(DType::f32, x[0]->shape());
}

Result<> require_eps(const NormParams& p) {
  if (!std::isfinite(p.eps) || p.eps < 0)
    return fail(ErrorCode::invalid_argument, "eps {}, want a finite value >= 0", p.eps);
  return {};
}

// Checks an optional weight or bias of a norm of n elements.
Result<> require_weight(const TensorSpec* weight, std::string_view what, int64_t n) {
  if (weight == nullptr) return {};
  TESSERA_TRY(require_f32_rows(*weight, what));
  if (weight->shape() != Shape{n})
    return fail(ErrorCode::invalid_argument, "{} {}, want [{}]", what, to_string(weight->shape()), n);
  return {};
}

// Operands: x, and optionally a weight and a bias.
Result<TensorSpec> infer_weighted_norm(Operands x, const NormParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  const int64_t n = x[0]->shape()[0];
  if (n < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  TESSERA_TRY(require_eps(p));
  for (size_t i = 1; i < x.size(); ++i) TESSERA_TRY(require_weight(x[i], i == 1 ? "weight" : "bias", n));
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> infer_l2_norm(Operands x, const NormParams& p) {
  if (!std::isfinite(p.eps) || p.eps <= 0)
    return fail(ErrorCode::invalid_argument, "eps {}, want a finite value > 0", p.eps);
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> infer_row_sum(Operands x) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  const Shape& shape = x[0]->shape();
  return contiguous(DType::f32, {1, shape[1], shape[2], shape[3]});
}

Result<TensorSpec> infer_sum_squares(Operands x) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  return contiguous(DType::f32, {x[0]->shape()[0]});
}

Result<TensorSpec> infer_soft_max_grad(Operands x) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  TESSERA_TRY(require_f32_rows(*x[1], "dy"));
  if (x[0]->shape() != x[1]->shape()) return fail(ErrorCode::invalid_argument, "x and dy differ in shape");
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> norm_grad(const TensorSpec& x, const TensorSpec* weight, const TensorSpec& dy) {
  TESSERA_TRY(require_f32_rows(x, "x"));
  TESSERA_TRY(require_f32_rows(dy, "dy"));
  if (x.shape()[0] < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  if (x.shape() != dy.shape()) return fail(ErrorCode::invalid_argument, "x and dy differ in shape");
  TESSERA_TRY(require_weight(weight, "weight", x.shape()[0]));
  return contiguous(DType::f32, x.shape());
}

Result<TensorSpec> infer_weighted_norm_grad(Operands x, const NormParams&) {
  if (x.size() < 3 || x[2] == nullptr) return fail(ErrorCode::invalid_argument, "dy is missing");
  return norm_grad(*x[0], x[1], *x[2]);
}

Result<TensorSpec> infer_l2_norm_grad(Operands x, const NormParams&) { return norm_grad(*x[0], nullptr, *x[1]); }

void gradient_soft_max(Gradient& g) { g.give(0, g.b.soft_max_grad(g.out(), g.dy())); }
void gradient_l2_norm(Gradient& g) { g.give(0, g.b.l2_norm_grad(g.in(0), g.dy(), g.params<NormParams>().eps)); }
void gradient_row_sum(Gradient& g) { g.give(0, g.b.repeat(g.dy(), g.spec(0).shape())); }

void gradient_rms_norm(Gradient& g) {
  const float eps = g.params<NormParams>().eps;
  if (g.wants(0)) g.give(0, g.b.rms_norm_grad(g.in(0), g.in(1), g.dy(), eps));
  if (g.wants(1)) g.give_sum(1, g.b.mul(g.dy(), g.b.rms_norm(g.in(0), {}, eps)));
}

void gradient_layer_norm(Gradient& g) {
  const float eps = g.params<NormParams>().eps;
  if (g.wants(0)) g.give(0, g.b.layer_norm_grad(g.in(0), g.in(1), g.dy(), eps));
  if (g.wants(1)) g.give_sum(1, g.b.mul(g.dy(), g.b.layer_norm(g.in(0), {}, {}, eps)));
  if (g.wants(2)) g.give_sum(2, g.dy());
}

// An operation on each row separately.
template <auto kInfer>
consteval OpDef of_rows(OperandCount n_operands, void (*gradient)(Gradient&), OperandSet in_place) {
  return {.n_operands = n_operands,
          .infer = shape_rule<kInfer>,
          .gradient = gradient,
          .cost = cost_of_memory,
          .in_place = in_place,
          .writes = kNoOperand};
}

}  // namespace

const OpDef op_defs::soft_max = of_rows<infer_soft_max>(1, gradient_soft_max, operands(0));
const OpDef op_defs::rms_norm = of_rows<infer_weighted_norm>({1, 2}, gradient_rms_norm, operands(0));
const OpDef op_defs::layer_norm = of_rows<infer_weighted_norm>({1, 3}, gradient_layer_norm, operands(0));
const OpDef op_defs::l2_norm = of_rows<infer_l2_norm>(1, gradient_l2_norm, operands(0));
const OpDef op_defs::row_sum = of_rows<infer_row_sum>(1, gradient_row_sum, kNoOperand);
const OpDef op_defs::soft_max_grad = of_rows<infer_soft_max_grad>(2, kForwardOnly, operands(0, 1));
// The weight is read for each row, so only x and dy may be overwritten.
const OpDef op_defs::rms_norm_grad = of_rows<infer_weighted_norm_grad>({1, 3}, kForwardOnly, operands(0, 2));
const OpDef op_defs::layer_norm_grad = of_rows<infer_weighted_norm_grad>({1, 3}, kForwardOnly, operands(0, 2));
const OpDef op_defs::l2_norm_grad = of_rows<infer_l2_norm_grad>(2, kForwardOnly, operands(0, 1));
const OpDef op_defs::sum_squares = {.n_operands = 1,
                                    .infer = shape_rule<infer_sum_squares>,
                                    .gradient = kForwardOnly,
                                    .cost = cost_of_each_element,
                                    .in_place = kNoOperand,
                                    .writes = kNoOperand};

}  // namespace tessera
