#include "tessera/nn/norm.h"

#include "tessera/nn/linear.h"

namespace tessera::nn {

namespace {

Value vector_or_absent(GraphBuilder& b, const Tensor* tensor) {
  return tensor == nullptr ? Value() : vector_f32(b, *tensor);
}

Value weightless(const Norm& n, GraphBuilder& b, Value x) { return norm(b, x, {.kind = n.kind, .eps = n.eps}); }

}  // namespace

Value norm(GraphBuilder& b, Value x, const Norm& n) {
  const Value weight = vector_or_absent(b, n.weight), bias = vector_or_absent(b, n.bias);
  if (n.kind == NormKind::layer) return b.layer_norm(x, weight, bias, n.eps);
  const Value y = b.rms_norm(x, weight, n.eps);
  return bias.present() ? b.add(y, bias) : y;
}

Value head_norm(GraphBuilder& b, Value x, const Norm& n) {
  const Layout layout = b.spec(x).layout;
  const int64_t dim = layout.shape[0], n_heads = layout.shape[1], n_tokens = layout.shape[2];
  if (n.is_weightless || n.weight->shape() == Shape{dim}) return norm(b, x, n);
  if (n.weight->shape() == Shape{dim, n_heads}) {
    const Value y = b.mul(weightless(n, b, x), vector_f32(b, *n.weight));
    return n.bias == nullptr ? y : b.add(y, vector_f32(b, *n.bias));
  }
  // The heads of a token are adjacent, even if tokens are not.
  const int64_t token_bytes = layout.nb[2], all_bytes = token_bytes * n_tokens;
  const Value rows =
      b.view(x, {.shape = {dim * n_heads, n_tokens}, .nb = {layout.nb[0], token_bytes, all_bytes, all_bytes}}, 0);
  return b.reshape(norm(b, rows, n), {dim, n_heads, n_tokens});
}

}  // namespace tessera::nn
