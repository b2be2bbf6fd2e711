#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

Result<> want_targets(Operands x) {
  TESSERA_TRY(want_f32_rows(*x[0], "logits"));
  const Shape& logits = x[0]->shape();
  if (logits[0] < 1 || logits[2] != 1 || logits[3] != 1)
    return fail(ErrorCode::invalid_argument, "logits {}, want [n_vocab, n_tokens]", to_string(logits));
  return want_i32_vector(*x[1], "targets", logits[1]);
}

}  // namespace

Result<TensorSpec> infer_cross_entropy(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 2, 2));
  TESSERA_TRY(want_targets(x));
  return contiguous(DType::f32, {1, x[0]->shape()[1]});
}

Result<TensorSpec> infer_cross_entropy_grad(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 3, 3));
  TESSERA_TRY(want_targets(x));
  TESSERA_TRY(want_f32_rows(*x[2], "d_loss"));
  if (x[2]->shape() != Shape{1, x[0]->shape()[1]})
    return fail(ErrorCode::invalid_argument, "d_loss {}, want one a token", to_string(x[2]->shape()));
  return contiguous(DType::f32, x[0]->shape());
}

void gradient_cross_entropy(Gradient& g) { g.give(0, g.b.cross_entropy_grad(g.in(0), g.in(1), g.dy())); }

}  // namespace tessera
