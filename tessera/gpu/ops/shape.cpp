// concat.
#include "tessera/gpu/ops/dispatch.h"

namespace tessera::gpu {

namespace {

Result<> prepare_concat(const StepContext& context, Step& step) {
  step.shader = Shader::shape;
  return set_groups(step, context.shape().n_rows());
}

}  // namespace

const OpKernel op_kernels::concat{.prepare = prepare_concat};

}  // namespace tessera::gpu
