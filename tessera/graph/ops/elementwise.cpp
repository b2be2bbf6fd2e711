// Shape rules of the element-wise and row-wise operations: the result has the first operand's shape.
#include <cmath>

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

}  // namespace tessera
