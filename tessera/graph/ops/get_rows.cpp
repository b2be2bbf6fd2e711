#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_get_rows(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 2, 2));
  if (x[0]->shape()[2] != 1 || x[0]->shape()[3] != 1)
    return fail(ErrorCode::invalid_argument, "the table has more than two dimensions");
  if (!has_contiguous_rows(x[0]->dtype, x[0]->layout))
    return fail(ErrorCode::invalid_argument, "the table's rows are not contiguous");
  TESSERA_TRY(want_i32_vector(*x[1], "ids", -1));
  return contiguous(DType::f32, {x[0]->shape()[0], x[1]->shape()[0]});
}

void gradient_get_rows(Gradient& g) {
  if (g.wants(0)) g.give(0, g.b.scatter_rows(g.dy(), g.in(1), g.spec(0).shape()[1]));
}

}  // namespace tessera
