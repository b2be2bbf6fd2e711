#include "tessera/graph/ops/elementwise.h"

#include <cmath>
#include <limits>

#include "tessera/graph/op_def.h"

namespace tessera {

Value ElementwiseOps::add(Value a, Value b) { return add_op(*this, Op::add, {a, b}); }
Value ElementwiseOps::mul(Value a, Value b) { return add_op(*this, Op::mul, {a, b}); }
Value ElementwiseOps::div(Value a, Value b) { return add_op(*this, Op::div, {a, b}); }
Value ElementwiseOps::scale(Value x, float factor) { return add_op(*this, Op::scale, {x}, ScaleParams{factor}); }
Value ElementwiseOps::silu(Value x) { return add_op(*this, Op::silu, {x}); }
Value ElementwiseOps::sigmoid(Value x) { return add_op(*this, Op::sigmoid, {x}); }
Value ElementwiseOps::gelu(Value x) { return add_op(*this, Op::gelu, {x}); }
Value ElementwiseOps::relu_squared(Value x) { return add_op(*this, Op::relu_squared, {x}); }
Value ElementwiseOps::soft_cap(Value x, float cap) { return add_op(*this, Op::soft_cap, {x}, SoftCapParams{cap}); }
Value ElementwiseOps::clamp(Value x, float min, float max) {
  return add_op(*this, Op::clamp, {x}, ClampParams{min, max});
}
Value ElementwiseOps::sqrt(Value x) { return add_op(*this, Op::sqrt, {x}); }
Value ElementwiseOps::softplus(Value x) { return add_op(*this, Op::softplus, {x}); }
Value ElementwiseOps::exp(Value x) { return add_op(*this, Op::exp, {x}); }
Value ElementwiseOps::xielu(Value x, const XieluParams& params) { return add_op(*this, Op::xielu, {x}, params); }
Value ElementwiseOps::swiglu(Value gate, Value up) { return add_op(*this, Op::swiglu, {gate, up}); }
Value ElementwiseOps::geglu(Value gate, Value up) { return add_op(*this, Op::geglu, {gate, up}); }
Value ElementwiseOps::swiglu_oai(Value gate, Value up) { return add_op(*this, Op::swiglu_oai, {gate, up}); }
Value ElementwiseOps::silu_grad(Value x, Value dy) { return add_op(*this, Op::silu_grad, {x, dy}); }
Value ElementwiseOps::gelu_grad(Value x, Value dy) { return add_op(*this, Op::gelu_grad, {x, dy}); }
Value ElementwiseOps::clamp_grad(Value x, Value dy, float min, float max) {
  return add_op(*this, Op::clamp_grad, {x, dy}, ClampParams{min, max});
}

namespace {

// The result has the first operand's shape.
Result<TensorSpec> infer_unary(Operands x) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  return contiguous(DType::f32, x[0]->shape());
}

// b may be repeated along any dimension from `first` on.
Result<TensorSpec> infer_repeated_second(Operands x, int first) {
  TESSERA_ASSIGN(const TensorSpec result, infer_unary(x));
  TESSERA_TRY(require_f32_rows(*x[1], "the second operand"));
  for (int i = 0; i < kMaxRank; ++i) {
    const int64_t a = x[0]->shape()[i], b = x[1]->shape()[i];
    if (b != a && (b != 1 || i < first))
      return fail(ErrorCode::invalid_argument, "dimension {}: {} and {} do not match", i, a, b);
  }
  return result;
}

Result<TensorSpec> infer_binary(Operands x) { return infer_repeated_second(x, 1); }
Result<TensorSpec> infer_mul(Operands x) { return infer_repeated_second(x, 0); }

Result<TensorSpec> infer_gated(Operands x) {
  TESSERA_ASSIGN(const TensorSpec result, infer_unary(x));
  TESSERA_TRY(require_f32_rows(*x[1], "the second operand"));
  if (x[0]->shape() != x[1]->shape()) return fail(ErrorCode::invalid_argument, "gate and up differ in shape");
  return result;
}

Result<TensorSpec> infer_with_dy(Operands x) {
  TESSERA_ASSIGN(const TensorSpec result, infer_unary(x));
  TESSERA_TRY(require_f32_rows(*x[1], "dy"));
  if (x[0]->shape() != x[1]->shape()) return fail(ErrorCode::invalid_argument, "x and dy differ in shape");
  return result;
}

Result<TensorSpec> infer_scale(Operands x, const ScaleParams&) { return infer_unary(x); }
Result<TensorSpec> infer_clamp_grad(Operands x, const ClampParams&) { return infer_with_dy(x); }

Result<TensorSpec> infer_soft_cap(Operands x, const SoftCapParams& p) {
  if (!std::isfinite(p.cap) || p.cap <= 0)
    return fail(ErrorCode::invalid_argument, "cap {}, want a finite value > 0", p.cap);
  return infer_unary(x);
}

Result<TensorSpec> infer_clamp(Operands x, const ClampParams& p) {
  if (!(p.min <= p.max)) return fail(ErrorCode::invalid_argument, "clamp to {} to {}", p.min, p.max);
  return infer_unary(x);
}

Result<TensorSpec> infer_xielu(Operands x, const XieluParams& p) {
  if (!std::isfinite(p.square) || !std::isfinite(p.exponential) || !std::isfinite(p.linear))
    return fail(ErrorCode::invalid_argument, "xielu with factors {}, {}, {}: want finite values", p.square,
                p.exponential, p.linear);
  if (!(p.bound <= 0.0f)) return fail(ErrorCode::invalid_argument, "xielu with bound {}, want at most 0", p.bound);
  return infer_unary(x);
}

void gradient_add(Gradient& g) {
  g.give(0, g.dy());
  if (g.wants(1)) g.give_sum(1, g.dy());
}

void gradient_mul(Gradient& g) {
  if (g.wants(0)) g.give(0, g.b.mul(g.dy(), g.in(1)));
  if (g.wants(1)) g.give_sum(1, g.b.mul(g.dy(), g.in(0)));
}

void gradient_div(Gradient& g) {
  const Value quotient = g.b.div(g.dy(), g.in(1));
  g.give(0, quotient);
  if (g.wants(1)) g.give_sum(1, g.b.scale(g.b.mul(quotient, g.out()), -1.0f));
}

void gradient_scale(Gradient& g) { g.give(0, g.b.scale(g.dy(), g.params<ScaleParams>().factor)); }
void gradient_silu(Gradient& g) { g.give(0, g.b.silu_grad(g.in(0), g.dy())); }
void gradient_gelu(Gradient& g) { g.give(0, g.b.gelu_grad(g.in(0), g.dy())); }
void gradient_sqrt(Gradient& g) { g.give(0, g.b.scale(g.b.div(g.dy(), g.out()), 0.5f)); }
void gradient_softplus(Gradient& g) { g.give(0, g.b.mul(g.dy(), g.b.sigmoid(g.in(0)))); }
void gradient_exp(Gradient& g) { g.give(0, g.b.mul(g.dy(), g.out())); }

// y (1 - y)
void gradient_sigmoid(Gradient& g) {
  const Value d = g.b.mul(g.dy(), g.out());
  g.give(0, g.b.add(d, g.b.scale(g.b.mul(d, g.out()), -1.0f)));
}

// 2 max(x, 0)
void gradient_relu_squared(Gradient& g) {
  const Value positive = g.b.clamp(g.in(0), 0.0f, std::numeric_limits<float>::max());
  g.give(0, g.b.scale(g.b.mul(g.dy(), positive), 2.0f));
}

// 1 - (y / cap)^2
void gradient_soft_cap(Gradient& g) {
  const Value y = g.b.scale(g.out(), 1.0f / g.params<SoftCapParams>().cap);
  g.give(0, g.b.add(g.dy(), g.b.scale(g.b.mul(g.b.mul(g.dy(), y), y), -1.0f)));
}

void gradient_clamp(Gradient& g) {
  const auto& params = g.params<ClampParams>();
  g.give(0, g.b.clamp_grad(g.in(0), g.dy(), params.min, params.max));
}

// linear + 2 square x for x > 0, linear + exponential (e^x - 1) else. The bound is too close to 0 to matter.
void gradient_xielu(Gradient& g) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const auto& p = g.params<XieluParams>();
  const Value positive = g.b.clamp(g.in(0), 0.0f, kLargest), negative = g.b.clamp(g.in(0), -kLargest, 0.0f);
  const Value slope = g.b.add(g.b.scale(positive, 2.0f * p.square), g.b.scale(g.b.exp(negative), p.exponential));
  g.give(0, g.b.add(g.b.mul(slope, g.dy()), g.b.scale(g.dy(), p.linear - p.exponential)));
}

void gradient_swiglu(Gradient& g) {
  if (g.wants(0)) g.give(0, g.b.silu_grad(g.in(0), g.b.mul(g.dy(), g.in(1))));
  if (g.wants(1)) g.give(1, g.b.swiglu(g.in(0), g.dy()));
}

void gradient_geglu(Gradient& g) {
  if (g.wants(0)) g.give(0, g.b.gelu_grad(g.in(0), g.b.mul(g.dy(), g.in(1))));
  if (g.wants(1)) g.give(1, g.b.geglu(g.in(0), g.dy()));
}

// g sigmoid(1.702 g) is silu(1.702 g) / 1.702.
void gradient_swiglu_oai(Gradient& g) {
  constexpr float kAlpha = 1.702f, kLimit = 7.0f, kLowest = std::numeric_limits<float>::lowest();
  const Value slope = g.b.scale(g.b.clamp(g.in(0), kLowest, kLimit), kAlpha);
  if (g.wants(0)) {
    const Value up = g.b.clamp(g.in(1), -kLimit, kLimit);
    const Value d_gate = g.b.silu_grad(slope, g.b.add(g.b.mul(g.dy(), up), g.dy()));
    g.give(0, g.b.clamp_grad(g.in(0), d_gate, kLowest, kLimit));
  }
  if (g.wants(1)) {
    const Value d_up = g.b.scale(g.b.swiglu(slope, g.dy()), 1.0f / kAlpha);
    g.give(1, g.b.clamp_grad(g.in(1), d_up, -kLimit, kLimit));
  }
}

template <auto kInfer>
consteval OpDef unary(void (*gradient)(Gradient&)) {
  return {.n_operands = 1,
          .infer = shape_rule<kInfer>,
          .gradient = gradient,
          .cost = cost_of_memory,
          .in_place = operands(0),
          .writes = kNoOperand};
}

template <auto kInfer>
consteval OpDef binary(void (*gradient)(Gradient&), OperandSet in_place) {
  return {.n_operands = 2,
          .infer = shape_rule<kInfer>,
          .gradient = gradient,
          .cost = cost_of_memory,
          .in_place = in_place,
          .writes = kNoOperand};
}

}  // namespace

// The second operand of these operations may be smaller than the result, so only the first may be overwritten.
const OpDef op_defs::add = binary<infer_binary>(gradient_add, operands(0));
const OpDef op_defs::mul = binary<infer_mul>(gradient_mul, operands(0));
const OpDef op_defs::div = binary<infer_binary>(gradient_div, operands(0));
const OpDef op_defs::scale = unary<infer_scale>(gradient_scale);
const OpDef op_defs::silu = unary<infer_unary>(gradient_silu);
const OpDef op_defs::sigmoid = unary<infer_unary>(gradient_sigmoid);
const OpDef op_defs::gelu = unary<infer_unary>(gradient_gelu);
const OpDef op_defs::relu_squared = unary<infer_unary>(gradient_relu_squared);
const OpDef op_defs::soft_cap = unary<infer_soft_cap>(gradient_soft_cap);
const OpDef op_defs::clamp = unary<infer_clamp>(gradient_clamp);
const OpDef op_defs::sqrt = unary<infer_unary>(gradient_sqrt);
const OpDef op_defs::softplus = unary<infer_unary>(gradient_softplus);
const OpDef op_defs::exp = unary<infer_unary>(gradient_exp);
const OpDef op_defs::xielu = unary<infer_xielu>(gradient_xielu);
const OpDef op_defs::swiglu = binary<infer_gated>(gradient_swiglu, operands(0, 1));
const OpDef op_defs::geglu = binary<infer_gated>(gradient_geglu, operands(0, 1));
const OpDef op_defs::swiglu_oai = binary<infer_gated>(gradient_swiglu_oai, operands(0, 1));
const OpDef op_defs::silu_grad = binary<infer_with_dy>(kForwardOnly, operands(0, 1));
const OpDef op_defs::gelu_grad = binary<infer_with_dy>(kForwardOnly, operands(0, 1));
const OpDef op_defs::clamp_grad = binary<infer_clamp_grad>(kForwardOnly, operands(0, 1));

}  // namespace tessera
