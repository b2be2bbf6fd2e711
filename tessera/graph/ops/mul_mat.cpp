#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_mul_mat(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 2, 2));
  const Shape &w = x[0]->shape(), &a = x[1]->shape();
  TESSERA_TRY(want_f32_rows(*x[1], "x"));
  if (!is_contiguous(x[0]->dtype, x[0]->layout)) return fail(ErrorCode::invalid_argument, "weights are not contiguous");
  if (w[2] != 1 || w[3] != 1 || a[2] != 1 || a[3] != 1)
    return fail(ErrorCode::invalid_argument, "operands have more than two dimensions");
  if (w[0] != a[0]) return fail(ErrorCode::invalid_argument, "weights have {} columns, x has {} rows", w[0], a[0]);
  if (w[0] < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  return contiguous(DType::f32, {w[1], a[1]});
}

// Both are products too: dx = W^T dy, and dW = x dy^T, a sum over tokens.
void gradient_mul_mat(Gradient& g) {
  if (g.wants(1)) g.give(1, g.b.mul_mat(g.b.transpose(g.in(0)), g.dy()));
  if (g.wants(0)) g.give(0, g.b.mul_mat(g.b.transpose(g.in(1)), g.b.transpose(g.dy())));
}

}  // namespace tessera
