// Operations on whole rows: a workgroup takes a row.
#include "tessera/vulkan/ops/dispatch.h"

namespace tessera::vulkan {

namespace {

// The variants of norm.comp.
enum class NormOp : uint32_t { rms_norm, layer_norm, l2_norm, soft_max, row_sum };

template <NormOp kOp>
Result<> prepare(const StepContext& context, Step& step) {
  step.shader = Shader::norm;
  step.variant = static_cast<uint32_t>(kOp);
  const OpParams& params = context.node.params;
  if constexpr (kOp == NormOp::rms_norm) step.params.u[0] = bits(std::get<RmsNormParams>(params).eps);
  if constexpr (kOp == NormOp::layer_norm) step.params.u[0] = bits(std::get<LayerNormParams>(params).eps);
  if constexpr (kOp == NormOp::l2_norm) step.params.u[0] = bits(std::get<L2NormParams>(params).eps);
  return set_groups(step, context.spec(0).shape().n_rows());
}

}  // namespace

extern const OpKernel kRmsNorm, kLayerNorm, kL2Norm, kSoftMax, kRowSum;
const OpKernel kRmsNorm{.supports = nullptr, .prepare = prepare<NormOp::rms_norm>};
const OpKernel kLayerNorm{.supports = nullptr, .prepare = prepare<NormOp::layer_norm>};
const OpKernel kL2Norm{.supports = nullptr, .prepare = prepare<NormOp::l2_norm>};
const OpKernel kSoftMax{.supports = nullptr, .prepare = prepare<NormOp::soft_max>};
const OpKernel kRowSum{.supports = nullptr, .prepare = prepare<NormOp::row_sum>};

}  // namespace tessera::vulkan
