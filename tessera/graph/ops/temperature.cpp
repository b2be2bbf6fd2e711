#include "tessera/graph/ops/temperature.h"

#include <cmath>

#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_temperature(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 1, 1));
  const auto* p = std::get_if<TemperatureParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_i32_vector(*x[0], "positions", -1));
  if (!std::isfinite(p->beta)) return fail(ErrorCode::invalid_argument, "beta {} is not finite", p->beta);
  if (p->length < 1) return fail(ErrorCode::invalid_argument, "steps of {} positions, want 1 or more", p->length);
  return contiguous(DType::f32, {1, 1, x[0]->shape()[0]});
}

}  // namespace tessera
