#include "tessera/graph/ops/layer_norm.h"

#include <cmath>

#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_layer_norm(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 1, 3));
  const auto* p = std::get_if<LayerNormParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_f32_rows(*x[0], "x"));
  const int64_t n = x[0]->shape()[0];
  if (n < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  if (!std::isfinite(p->eps) || p->eps < 0)
    return fail(ErrorCode::invalid_argument, "eps {}, want a finite value >= 0", p->eps);
  for (size_t i = 1; i < x.size(); ++i) {
    if (x[i] == nullptr) continue;
    const char* what = i == 1 ? "weight" : "bias";
    TESSERA_TRY(want_f32_rows(*x[i], what));
    if (x[i]->shape() != Shape{n})
      return fail(ErrorCode::invalid_argument, "{} {}, want [{}]", what, to_string(x[i]->shape()), n);
  }
  return contiguous(DType::f32, x[0]->shape());
}

void gradient_layer_norm(Gradient& g) {
  const float eps = std::get<LayerNormParams>(g.node().params).eps;
  if (g.wants(0)) g.give(0, g.b.layer_norm_grad(g.in(0), g.in(1), g.dy(), eps));
  if (g.wants(1)) g.give_sum(1, g.b.mul(g.dy(), g.b.layer_norm(g.in(0), {}, {}, eps)));
  if (g.wants(2)) g.give_sum(2, g.dy());
}

}  // namespace tessera
