#include "tessera/base/checked.h"
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

}  // namespace tessera
