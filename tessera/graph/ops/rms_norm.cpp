#include "tessera/graph/ops/rms_norm.h"

#include <cmath>

#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_rms_norm(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 1, 2));
  const auto* p = std::get_if<RmsNormParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_f32_rows(*x[0], "x"));
  if (x[0]->shape()[0] < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  if (!std::isfinite(p->eps) || p->eps < 0)
    return fail(ErrorCode::invalid_argument, "eps {}, want a finite value >= 0", p->eps);
  if (x.size() == 2 && x[1] != nullptr) {
    TESSERA_TRY(want_f32_rows(*x[1], "weight"));
    if (x[1]->shape()[0] != x[0]->shape()[0] || x[1]->shape().n_rows() != 1)
      return fail(ErrorCode::invalid_argument, "weight {}, want [{}]", to_string(x[1]->shape()), x[0]->shape()[0]);
  }
  return contiguous(DType::f32, x[0]->shape());
}

void gradient_rms_norm(Gradient& g) {
  const float eps = std::get<RmsNormParams>(g.node().params).eps;
  if (g.wants(0)) g.give(0, g.b.rms_norm_grad(g.in(0), g.in(1), g.dy(), eps));
  if (g.wants(1)) g.give_sum(1, g.b.mul(g.dy(), g.b.rms_norm(g.in(0), {}, eps)));
}

}  // namespace tessera
