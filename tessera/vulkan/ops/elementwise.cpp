// Operations on each element by itself: a workgroup takes a piece of a row.
#include <algorithm>

#include "tessera/vulkan/ops/dispatch.h"

namespace tessera::vulkan {

namespace {

// The variants of elementwise.comp.
enum class ElementwiseOp : uint32_t {
  add,
  mul,
  div,
  scale,
  silu,
  sigmoid,
  gelu,
  relu_squared,
  soft_cap,
  clamp,
  sqrt,
  swiglu,
  geglu,
  swiglu_oai,
  softplus,
  exp
};

constexpr int64_t kPerLane = 8;  // elements of a piece for each invocation

template <ElementwiseOp kOp>
Result<> prepare(const StepContext& context, Step& step) {
  const int64_t piece = kPerLane * context.n_lanes;
  step.shader = Shader::elementwise;
  step.variant = static_cast<uint32_t>(kOp);
  step.params.u[0] = count(piece);
  const OpParams& params = context.node.params;
  if constexpr (kOp == ElementwiseOp::scale) step.params.u[1] = bits(std::get<ScaleParams>(params).factor);
  if constexpr (kOp == ElementwiseOp::soft_cap) step.params.u[1] = bits(std::get<SoftCapParams>(params).cap);
  if constexpr (kOp == ElementwiseOp::clamp) {
    step.params.u[1] = bits(std::get<ClampParams>(params).min);
    step.params.u[2] = bits(std::get<ClampParams>(params).max);
  }
  return set_groups(step, div_ceil(context.shape()[0], piece) * context.shape().n_rows());
}

template <ElementwiseOp kOp>
constexpr OpKernel kernel() {
  return {.supports = nullptr, .prepare = prepare<kOp>};
}

}  // namespace

extern const OpKernel kAdd, kMul, kDiv, kScale, kSilu, kSigmoid, kGelu, kReluSquared, kSoftCap, kClamp, kSqrt, kSwiglu,
    kGeglu, kSwigluOai, kSoftplus, kExp;
const OpKernel kAdd = kernel<ElementwiseOp::add>();
const OpKernel kMul = kernel<ElementwiseOp::mul>();
const OpKernel kDiv = kernel<ElementwiseOp::div>();
const OpKernel kScale = kernel<ElementwiseOp::scale>();
const OpKernel kSilu = kernel<ElementwiseOp::silu>();
const OpKernel kSigmoid = kernel<ElementwiseOp::sigmoid>();
const OpKernel kGelu = kernel<ElementwiseOp::gelu>();
const OpKernel kReluSquared = kernel<ElementwiseOp::relu_squared>();
const OpKernel kSoftCap = kernel<ElementwiseOp::soft_cap>();
const OpKernel kClamp = kernel<ElementwiseOp::clamp>();
const OpKernel kSqrt = kernel<ElementwiseOp::sqrt>();
const OpKernel kSwiglu = kernel<ElementwiseOp::swiglu>();
const OpKernel kGeglu = kernel<ElementwiseOp::geglu>();
const OpKernel kSwigluOai = kernel<ElementwiseOp::swiglu_oai>();
const OpKernel kSoftplus = kernel<ElementwiseOp::softplus>();
const OpKernel kExp = kernel<ElementwiseOp::exp>();

}  // namespace tessera::vulkan
