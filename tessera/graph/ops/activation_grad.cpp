// Rules of what activations and soft_max need on the way back: x or y, and dy of its shape.
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

Result<TensorSpec> with_dy(Operands x) {
  TESSERA_TRY(want_operands(x, 2, 2));
  TESSERA_TRY(want_f32_rows(*x[0], "x"));
  TESSERA_TRY(want_f32_rows(*x[1], "dy"));
  if (x[0]->shape() != x[1]->shape()) return fail(ErrorCode::invalid_argument, "x and dy differ in shape");
  return contiguous(DType::f32, x[0]->shape());
}

}  // namespace

Result<TensorSpec> infer_silu_grad(Operands x, const OpParams&) { return with_dy(x); }
Result<TensorSpec> infer_gelu_grad(Operands x, const OpParams&) { return with_dy(x); }
Result<TensorSpec> infer_soft_max_grad(Operands x, const OpParams&) { return with_dy(x); }

Result<TensorSpec> infer_clamp_grad(Operands x, const OpParams& params) {
  if (!std::holds_alternative<ClampParams>(params)) return fail(ErrorCode::internal, "parameters of another op");
  return with_dy(x);
}

}  // namespace tessera
