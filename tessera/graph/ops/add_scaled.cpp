#include <cmath>

#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_add_scaled(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 3, 4));
  const auto* p = std::get_if<AddScaledParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_f32_rows(*x[0], "y"));
  TESSERA_TRY(want_f32_rows(*x[1], "d"));
  TESSERA_TRY(want_f32_rows(*x[2], "scales"));
  if (!std::isfinite(p->factor)) return fail(ErrorCode::invalid_argument, "factor {} is not finite", p->factor);
  const Shape &y = x[0]->shape(), &d = x[1]->shape(), &scales = x[2]->shape();
  if (y[2] != 1 || y[3] != 1) return fail(ErrorCode::invalid_argument, "y {}, want a matrix", to_string(y));
  if (d != y && d != Shape{y[0]})
    return fail(ErrorCode::invalid_argument, "d {}, want y's shape or one of its rows", to_string(d));
  if (scales != Shape{1, scales[1]})
    return fail(ErrorCode::invalid_argument, "scales {}, want one a row", to_string(scales));
  const bool has_routes = x.size() == 4 && x[3] != nullptr;
  if (!has_routes && scales[1] != y[1])
    return fail(ErrorCode::invalid_argument, "{} scales for {} rows", scales[1], y[1]);
  if (has_routes) {
    TESSERA_TRY(want_i32_vector(*x[3], "routes", p->n_experts + 1 + 2 * y[1]));
    const bool fits = scales[1] == 0 ? y[1] == 0 : y[1] % scales[1] == 0;
    if (!fits) return fail(ErrorCode::invalid_argument, "{} scales for {} pairs", scales[1], y[1]);
  }
  return contiguous(DType::f32, y);
}

void gradient_add_scaled(Gradient& g) {
  g.give(0, g.dy());
  const auto& params = std::get<AddScaledParams>(g.node().params);
  if (!g.wants(1) && !g.wants(2)) return;
  // With routes a row's scale is its token's.
  const auto by_row = [&](Value scales) {
    return params.n_experts == 0 ? scales : g.b.expert_spread(scales, Value(), g.routes(3));
  };
  const auto by_token = [&](Value d) { return params.n_experts == 0 ? d : g.b.expert_sum(d, Value(), g.routes(3)); };
  if (g.wants(1)) g.give_sum(1, g.b.mul(g.dy(), g.b.scale(by_row(g.in(2)), params.factor)));
  if (g.wants(2)) g.give(2, by_token(g.b.scale(g.b.row_sum(g.b.mul(g.dy(), g.in(1))), params.factor)));
}

}  // namespace tessera
