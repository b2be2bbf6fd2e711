#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

// The result's type is set by GraphBuilder::cast; the rule only judges the operand.
Result<TensorSpec> infer_cast(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 1, 1));
  if (!has_contiguous_rows(x[0]->dtype, x[0]->layout))
    return fail(ErrorCode::invalid_argument, "rows are not contiguous");
  return contiguous(x[0]->dtype, x[0]->shape());
}

void gradient_cast(Gradient& g) { g.give(0, g.dy()); }

}  // namespace tessera
