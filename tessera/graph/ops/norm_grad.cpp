// Rules of the gradients of norms with respect to x: operands x, the weight or none, and dy of x's shape.
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

Result<TensorSpec> norm_grad(const TensorSpec& x, const TensorSpec* weight, const TensorSpec& dy) {
  TESSERA_TRY(want_f32_rows(x, "x"));
  TESSERA_TRY(want_f32_rows(dy, "dy"));
  if (x.shape()[0] < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  if (x.shape() != dy.shape()) return fail(ErrorCode::invalid_argument, "x and dy differ in shape");
  if (weight != nullptr) {
    TESSERA_TRY(want_f32_rows(*weight, "weight"));
    if (weight->shape() != Shape{x.shape()[0]})
      return fail(ErrorCode::invalid_argument, "weight {}, want [{}]", to_string(weight->shape()), x.shape()[0]);
  }
  return contiguous(DType::f32, x.shape());
}

template <class Params>
Result<TensorSpec> weighted_norm_grad(Operands x, const OpParams& params) {
  if (!std::holds_alternative<Params>(params)) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_operands(x, 1, 3));
  if (x.size() < 3 || x[2] == nullptr) return fail(ErrorCode::invalid_argument, "dy is missing");
  return norm_grad(*x[0], x[1], *x[2]);
}

}  // namespace

Result<TensorSpec> infer_rms_norm_grad(Operands x, const OpParams& params) {
  return weighted_norm_grad<RmsNormParams>(x, params);
}

Result<TensorSpec> infer_layer_norm_grad(Operands x, const OpParams& params) {
  return weighted_norm_grad<LayerNormParams>(x, params);
}

Result<TensorSpec> infer_l2_norm_grad(Operands x, const OpParams& params) {
  if (!std::holds_alternative<L2NormParams>(params)) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_operands(x, 2, 2));
  return norm_grad(*x[0], nullptr, *x[1]);
}

}  // namespace tessera
