#include "tessera/graph/ops/rope.h"

#include <cmath>

#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_rope_table(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 1, 2));
  const auto* p = std::get_if<RopeTableParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_i32_vector(*x[0], "positions", -1));
  if (p->n_rot < 2 || p->n_rot % 2 != 0)
    return fail(ErrorCode::invalid_argument, "n_rot {}, want an even number from 2 on", p->n_rot);
  for (const float f : {p->freq_base, p->freq_scale, p->magnitude})
    if (!std::isfinite(f) || f <= 0)
      return fail(ErrorCode::invalid_argument, "rope parameter {}, want a finite value > 0", f);
  for (const float f : {p->yarn_ext, p->yarn_low, p->yarn_high})
    if (!std::isfinite(f) || f < 0)
      return fail(ErrorCode::invalid_argument, "YaRN parameter {}, want a finite value >= 0", f);
  if (x.size() == 2 && x[1] != nullptr) {
    TESSERA_TRY(want_f32_rows(*x[1], "frequency factors"));
    if (x[1]->shape()[0] != p->n_rot / 2 || x[1]->shape().n_rows() != 1)
      return fail(ErrorCode::invalid_argument, "frequency factors {}, want [{}]", to_string(x[1]->shape()),
                  p->n_rot / 2);
  }
  return contiguous(DType::f32, {p->n_rot, x[0]->shape()[0]});
}

Result<TensorSpec> infer_rope(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 2, 2));
  if (!std::holds_alternative<RopeParams>(params)) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_f32_rows(*x[0], "x"));
  TESSERA_TRY(want_f32_rows(*x[1], "table"));
  const Shape &a = x[0]->shape(), &table = x[1]->shape();
  if (a[3] != 1 || table[1] != a[2] || table.n_rows() != table[1] || table[0] > a[0] || table[0] % 2 != 0)
    return fail(ErrorCode::invalid_argument, "want x [dim, n_heads, n_tokens] and table [n_rot <= dim, n_tokens]");
  return contiguous(DType::f32, a);
}

// A rotation's transpose is its inverse, scaled by the table's magnitude as it is.
void gradient_rope(Gradient& g) {
  const auto& [pairs, inverse] = std::get<RopeParams>(g.node().params);
  g.give(0, g.b.rope(g.dy(), g.in(1), pairs, !inverse));
}

}  // namespace tessera
