#include "tessera/graph/ops/optimizer.h"

#include <algorithm>

#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

// That the first n_same operands are f32 of one shape without gaps, and the next the numbers of a step.
Result<> want_step(Operands x, size_t n_same, bool has_hyper) {
  for (size_t i = 0; i < n_same; ++i)
    if (x[i]->dtype != DType::f32 || !is_contiguous(x[i]->dtype, x[i]->layout) || x[i]->shape() != x[0]->shape())
      return fail(ErrorCode::invalid_argument, "operand {} is {} {}, want contiguous f32 {}", i, info(x[i]->dtype).name,
                  to_string(x[i]->shape()), to_string(x[0]->shape()));
  if (!has_hyper) return {};
  const TensorSpec& hyper = *x[n_same];
  TESSERA_TRY(want_f32_rows(hyper, "numbers of the step"));
  if (hyper.shape() != Shape{kHyperEntries})
    return fail(ErrorCode::invalid_argument, "numbers of the step {}, want [{}]", to_string(hyper.shape()),
                kHyperEntries);
  return {};
}

Result<TensorSpec> step(Operands x, size_t n_same, bool has_hyper) {
  const size_t n = n_same + (has_hyper ? 1 : 0);
  TESSERA_TRY(want_operands(x, n, n));
  TESSERA_TRY(want_step(x, n_same, has_hyper));
  return contiguous(DType::f32, x[0]->shape());
}

}  // namespace

Result<TensorSpec> infer_accumulate(Operands x, const OpParams&) { return step(x, 2, false); }
Result<TensorSpec> infer_momentum(Operands x, const OpParams&) { return step(x, 2, true); }
Result<TensorSpec> infer_adam(Operands x, const OpParams&) { return step(x, 3, true); }

Result<TensorSpec> infer_descend(Operands x, const OpParams& params) {
  if (!std::holds_alternative<DescendParams>(params)) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_operands(x, 3, 4));
  TESSERA_TRY(want_step(x, 2, true));
  if (x.size() == 4 && x[3] != nullptr &&
      (x[3]->shape() != x[0]->shape() || x[3]->dtype != DType::bf16 || !is_contiguous(DType::bf16, x[3]->layout)))
    return fail(ErrorCode::invalid_argument, "the rounded copy is {} {}, want contiguous bf16 {}",
                info(x[3]->dtype).name, to_string(x[3]->shape()), to_string(x[0]->shape()));
  return contiguous(DType::f32, x[0]->shape());
}

}  // namespace tessera
