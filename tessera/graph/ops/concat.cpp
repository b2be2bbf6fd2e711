#include "tessera/base/checked.h"
#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_concat(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 2, 2));
  TESSERA_TRY(want_f32_rows(*x[0], "the first operand"));
  TESSERA_TRY(want_f32_rows(*x[1], "the second operand"));
  Shape shape = x[0]->shape();
  for (int i = 1; i < kMaxRank; ++i)
    if (x[1]->shape()[i] != shape[i])
      return fail(ErrorCode::invalid_argument, "dimension {}: {} and {} do not match", i, shape[i], x[1]->shape()[i]);
  const auto n = checked_add(shape[0], x[1]->shape()[0]);
  if (!n) return fail(ErrorCode::limit, "rows are too long");
  shape[0] = *n;
  return contiguous(DType::f32, shape);
}

void gradient_concat(Gradient& g) {
  size_t offset = 0;
  for (size_t i = 0; i < 2; ++i) {
    const Layout part{.shape = g.spec(i).shape(), .nb = g.b.spec(g.dy()).layout.nb};
    if (g.wants(i)) g.give(i, g.b.cast(g.b.view(g.dy(), part, offset), DType::f32));
    offset += static_cast<size_t>(part.shape[0]) * sizeof(float);
  }
}

}  // namespace tessera
