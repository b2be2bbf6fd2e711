// Elementwise operations: one workgroup per piece of a row.
#include <algorithm>

#include "tessera/gpu/ops/dispatch.h"
#include "tessera/graph/op_info.h"

namespace tessera::gpu {

namespace {

// The variants of elementwise.comp. ops.glsl defines the same numbers.
enum class Elementwise : uint32_t {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) name,
#include "tessera/graph/ops.def"
};

constexpr int64_t kPerLane = 8;  // elements per invocation

template <Elementwise kOp>
Result<> prepare(const StepContext& context, Step& step) {
  const int64_t piece = kPerLane * context.n_lanes;
  step.shader = Shader::elementwise;
  step.variant = static_cast<uint32_t>(kOp);
  step.params.u[0] = count(piece);
  size_t next = 1;
  const ParamList params = list_params(context.node.params);
  for (const Param& param : params.all()) step.params.u[next++] = bits(static_cast<float>(param.number));
  return set_groups(step, div_ceil(context.shape()[0], piece) * context.shape().n_rows());
}

}  // namespace

#define TESSERA_KERNEL_cpu(name)
#define TESSERA_KERNEL_all(name) const OpKernel op_kernels::name{.prepare = prepare<Elementwise::name>};
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) TESSERA_KERNEL_##devices(name)
#include "tessera/graph/ops.def"
#undef TESSERA_KERNEL_cpu
#undef TESSERA_KERNEL_all

}  // namespace tessera::gpu
