#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_mul_mat_heads(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 2, 2));
  const Shape &w = x[0]->shape(), &a = x[1]->shape();
  TESSERA_TRY(want_f32_rows(*x[1], "x"));
  if (!is_contiguous(x[0]->dtype, x[0]->layout)) return fail(ErrorCode::invalid_argument, "weights are not contiguous");
  if (w[3] != 1 || a[3] != 1) return fail(ErrorCode::invalid_argument, "operands have more than three dimensions");
  if (w[0] != a[0] || w[2] != a[1])
    return fail(ErrorCode::invalid_argument, "weights have {} columns and {} heads, x has {} and {}", w[0], w[2], a[0],
                a[1]);
  if (w[0] < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  return contiguous(DType::f32, {w[1], a[1], a[2]});
}

}  // namespace tessera
