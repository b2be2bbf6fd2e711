#include "tessera/graph/gradient.h"
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

namespace {

// x with its last two dimensions exchanged: a view.
Value swap_outer(GraphBuilder& b, Value x) {
  Layout layout = b.spec(x).layout;
  std::swap(layout.shape[1], layout.shape[2]);
  std::swap(layout.nb[1], layout.nb[2]);
  return b.view(x, layout, 0);
}

}  // namespace

// Per head as mul_mat's: with tokens innermost in both operands, dW comes out as [k, n_heads, n].
void gradient_mul_mat_heads(Gradient& g) {
  if (g.wants(1)) g.give(1, g.b.mul_mat_heads(g.b.transpose(g.in(0)), g.dy()));
  if (!g.wants(0)) return;
  const Value x = g.b.transpose(swap_outer(g.b, g.in(1)));     // [t, k, n_heads]
  const Value dy = g.b.transpose(swap_outer(g.b, g.dy()));     // [t, n, n_heads]
  const Value dw = g.b.mul_mat_heads(x, swap_outer(g.b, dy));  // [k, n_heads, n]
  g.give(0, g.b.cast(swap_outer(g.b, dw), DType::f32));
}

}  // namespace tessera
