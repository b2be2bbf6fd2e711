#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_sum_squares(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 1, 1));
  TESSERA_TRY(want_f32_rows(*x[0], "x"));
  return contiguous(DType::f32, {x[0]->shape()[0]});
}

}  // namespace tessera
