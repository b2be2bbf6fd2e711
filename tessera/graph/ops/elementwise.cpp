// Shape rules of the element-wise and row-wise operations: the result has the first operand's shape.
#include <cmath>
#include <limits>

#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

Result<TensorSpec> same_shape(Operands x, size_t n_operands) {
  TESSERA_TRY(want_operands(x, n_operands, n_operands));
  for (size_t i = 0; i < n_operands; ++i) TESSERA_TRY(want_f32_rows(*x[i], i == 0 ? "x" : "the second operand"));
  return contiguous(DType::f32, x[0]->shape());
}

// b may be repeated along any dimension from `first` on.
Result<TensorSpec> repeated_second(Operands x, int first) {
  TESSERA_ASSIGN(TensorSpec result, same_shape(x, 2));
  for (int i = 0; i < kMaxRank; ++i) {
    const int64_t a = x[0]->shape()[i], b = x[1]->shape()[i];
    if (b != a && (b != 1 || i < first))
      return fail(ErrorCode::invalid_argument, "dimension {}: {} and {} do not match", i, a, b);
  }
  return result;
}

Result<TensorSpec> gate_and_up(Operands x) {
  TESSERA_ASSIGN(TensorSpec result, same_shape(x, 2));
  if (x[0]->shape() != x[1]->shape()) return fail(ErrorCode::invalid_argument, "gate and up differ in shape");
  return result;
}

}  // namespace

Result<TensorSpec> infer_add(Operands x, const OpParams&) { return repeated_second(x, 1); }
Result<TensorSpec> infer_mul(Operands x, const OpParams&) { return repeated_second(x, 0); }
Result<TensorSpec> infer_div(Operands x, const OpParams&) { return repeated_second(x, 1); }
Result<TensorSpec> infer_silu(Operands x, const OpParams&) { return same_shape(x, 1); }
Result<TensorSpec> infer_sigmoid(Operands x, const OpParams&) { return same_shape(x, 1); }
Result<TensorSpec> infer_gelu(Operands x, const OpParams&) { return same_shape(x, 1); }
Result<TensorSpec> infer_relu_squared(Operands x, const OpParams&) { return same_shape(x, 1); }
Result<TensorSpec> infer_sqrt(Operands x, const OpParams&) { return same_shape(x, 1); }
Result<TensorSpec> infer_soft_max(Operands x, const OpParams&) { return same_shape(x, 1); }
Result<TensorSpec> infer_swiglu(Operands x, const OpParams&) { return gate_and_up(x); }
Result<TensorSpec> infer_geglu(Operands x, const OpParams&) { return gate_and_up(x); }
Result<TensorSpec> infer_swiglu_oai(Operands x, const OpParams&) { return gate_and_up(x); }

Result<TensorSpec> infer_scale(Operands x, const OpParams& params) {
  if (!std::holds_alternative<ScaleParams>(params)) return fail(ErrorCode::internal, "parameters of another op");
  return same_shape(x, 1);
}

Result<TensorSpec> infer_soft_cap(Operands x, const OpParams& params) {
  const auto* p = std::get_if<SoftCapParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  if (!std::isfinite(p->cap) || p->cap <= 0)
    return fail(ErrorCode::invalid_argument, "cap {}, want a finite value > 0", p->cap);
  return same_shape(x, 1);
}

Result<TensorSpec> infer_clamp(Operands x, const OpParams& params) {
  const auto* p = std::get_if<ClampParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  if (!(p->min <= p->max)) return fail(ErrorCode::invalid_argument, "clamp to {} to {}", p->min, p->max);
  return same_shape(x, 1);
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

void gradient_scale(Gradient& g) { g.give(0, g.b.scale(g.dy(), std::get<ScaleParams>(g.node().params).factor)); }
void gradient_silu(Gradient& g) { g.give(0, g.b.silu_grad(g.in(0), g.dy())); }
void gradient_gelu(Gradient& g) { g.give(0, g.b.gelu_grad(g.in(0), g.dy())); }
void gradient_sqrt(Gradient& g) { g.give(0, g.b.scale(g.b.div(g.dy(), g.out()), 0.5f)); }
void gradient_soft_max(Gradient& g) { g.give(0, g.b.soft_max_grad(g.out(), g.dy())); }

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
  const float cap = std::get<SoftCapParams>(g.node().params).cap;
  const Value y = g.b.scale(g.out(), 1.0f / cap);
  g.give(0, g.b.add(g.dy(), g.b.scale(g.b.mul(g.b.mul(g.dy(), y), y), -1.0f)));
}

void gradient_clamp(Gradient& g) {
  const auto& [min, max] = std::get<ClampParams>(g.node().params);
  g.give(0, g.b.clamp_grad(g.in(0), g.dy(), min, max));
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

}  // namespace tessera
