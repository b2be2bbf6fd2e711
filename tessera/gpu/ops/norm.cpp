// Operations on whole rows: one workgroup per row.
#include "tessera/gpu/ops/dispatch.h"

namespace tessera::gpu {

namespace {

// The variants of norm.comp.
enum class NormOp : uint32_t { rms_norm, layer_norm, l2_norm, soft_max, row_sum };

template <NormOp kOp>
Result<> prepare(const StepContext& context, Step& step) {
  step.shader = Shader::norm;
  step.variant = static_cast<uint32_t>(kOp);
  const OpParams& params = context.node.params;
  if constexpr (kOp == NormOp::rms_norm) step.params.u[0] = bits(std::get<NormParams>(params).eps);
  if constexpr (kOp == NormOp::layer_norm) step.params.u[0] = bits(std::get<NormParams>(params).eps);
  if constexpr (kOp == NormOp::l2_norm) step.params.u[0] = bits(std::get<NormParams>(params).eps);
  return set_groups(step, context.spec(0).shape().n_rows());
}

Result<> prepare_sum_squares(const StepContext& context, Step& step) {
  step.shader = Shader::norm_sum_squares;
  return set_groups(step, context.shape()[0], context.n_lanes);
}

}  // namespace

const OpKernel op_kernels::rms_norm{.prepare = prepare<NormOp::rms_norm>};
const OpKernel op_kernels::layer_norm{.prepare = prepare<NormOp::layer_norm>};
const OpKernel op_kernels::l2_norm{.prepare = prepare<NormOp::l2_norm>};
const OpKernel op_kernels::soft_max{.prepare = prepare<NormOp::soft_max>};
const OpKernel op_kernels::row_sum{.prepare = prepare<NormOp::row_sum>};
const OpKernel op_kernels::sum_squares{.prepare = prepare_sum_squares};

}  // namespace tessera::gpu
