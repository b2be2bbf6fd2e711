#include "tessera/graph/ops/matmul.h"

#include "tessera/graph/op_def.h"

namespace tessera {

Value MatmulOps::mul_mat(Value weights, Value x) {
  GraphBuilder& b = builder_of(*this);
  Value product = add_op(*this, Op::mul_mat, {weights, x});
  if (product.present()) b.observe_product(weights, x);
  for (const ActiveAdapter& adapter : b.adapters()) {
    const LowRank* term = b.find_term(adapter.terms->products, weights);
    if (term == nullptr) continue;
    const Value low = add_op(*this, Op::mul_mat, {b.tensor(*term->down), x});
    const Value delta = add_op(*this, Op::mul_mat, {b.tensor(*term->up), low});
    product = b.add_scaled(product, delta, b.scales_of(adapter, b.spec(product).shape()[1]), term->factor);
  }
  return product;
}

Value MatmulOps::mul_mat_heads(Value weights, Value x) { return add_op(*this, Op::mul_mat_heads, {weights, x}); }

namespace {

Result<TensorSpec> infer_mul_mat(Operands x) {
  const Shape &w = x[0]->shape(), &a = x[1]->shape();
  TESSERA_TRY(require_f32_rows(*x[1], "x"));
  if (!is_contiguous(x[0]->dtype, x[0]->layout)) return fail(ErrorCode::invalid_argument, "weights are not contiguous");
  if (w[2] != 1 || w[3] != 1 || a[2] != 1 || a[3] != 1)
    return fail(ErrorCode::invalid_argument, "operands have more than two dimensions");
  if (w[0] != a[0]) return fail(ErrorCode::invalid_argument, "weights have {} columns, x has {} rows", w[0], a[0]);
  if (w[0] < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  return contiguous(DType::f32, {w[1], a[1]});
}

Result<TensorSpec> infer_mul_mat_heads(Operands x) {
  const Shape &w = x[0]->shape(), &a = x[1]->shape();
  TESSERA_TRY(require_f32_rows(*x[1], "x"));
  if (!is_contiguous(x[0]->dtype, x[0]->layout)) return fail(ErrorCode::invalid_argument, "weights are not contiguous");
  if (w[3] != 1 || a[3] != 1) return fail(ErrorCode::invalid_argument, "operands have more than three dimensions");
  if (w[0] != a[0] || w[2] != a[1])
    return fail(ErrorCode::invalid_argument, "weights have {} columns and {} heads, x has {} and {}", w[0], w[2], a[0],
                a[1]);
  if (w[0] < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  return contiguous(DType::f32, {w[1], a[1], a[2]});
}

// Both gradients are products: dx = W^T dy, and dW = x dy^T, a sum over tokens.
void gradient_mul_mat(Gradient& g) {
  if (g.wants(1)) g.give(1, g.b.mul_mat(g.b.transpose(g.in(0)), g.dy()));
  if (g.wants(0)) g.give(0, g.b.mul_mat(g.b.transpose(g.in(1)), g.b.transpose(g.dy())));
}

// A view of x with its last two dimensions exchanged.
Value swap_outer(GraphBuilder& b, Value x) {
  Layout layout = b.spec(x).layout;
  std::swap(layout.shape[1], layout.shape[2]);
  std::swap(layout.nb[1], layout.nb[2]);
  return b.view(x, layout, 0);
}

// Like the gradient of mul_mat, per head. With tokens innermost in both operands, dW is computed as [k, n_heads, n].
void gradient_mul_mat_heads(Gradient& g) {
  if (g.wants(1)) g.give(1, g.b.mul_mat_heads(g.b.transpose(g.in(0)), g.dy()));
  if (!g.wants(0)) return;
  const Value x = g.b.transpose(swap_outer(g.b, g.in(1)));     // [t, k, n_heads]
  const Value dy = g.b.transpose(swap_outer(g.b, g.dy()));     // [t, n, n_heads]
  const Value dw = g.b.mul_mat_heads(x, swap_outer(g.b, dy));  // [k, n_heads, n]
  g.give(0, g.b.cast(swap_outer(g.b, dw), DType::f32));
}

template <int kTokenDimension>
Cost cost_of_product(const Graph& graph, const Node& node) {
  Cost cost = cost_of_memory(graph, node);
  cost.macs = graph[node.sources[0]].spec.shape().n_elements() * node.spec.shape()[kTokenDimension];
  return cost;
}

template <auto kInfer, int kTokenDimension>
consteval OpDef product(void (*gradient)(Gradient&)) {
  return {.n_operands = 2,
          .infer = shape_rule<kInfer>,
          .gradient = gradient,
          .cost = cost_of_product<kTokenDimension>,
          .in_place = kNoOperand,
          .writes = kNoOperand};
}

}  // namespace

const OpDef op_defs::mul_mat = product<infer_mul_mat, 1>(gradient_mul_mat);
const OpDef op_defs::mul_mat_heads = product<infer_mul_mat_heads, 2>(gradient_mul_mat_heads);

}  // namespace tessera
