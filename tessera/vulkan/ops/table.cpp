// The table of the device's kernels by operation.
#include "tessera/base/index.h"
#include "tessera/vulkan/step.h"

namespace tessera::vulkan {

namespace {

constexpr const OpKernel* kKernels[] = {
#define TESSERA_KERNEL_none(name) nullptr,
#define TESSERA_KERNEL_cpu(name) nullptr,
#define TESSERA_KERNEL_all(name) &op_kernels::name,
#define TESSERA_OP(name, family, parameters, devices) TESSERA_KERNEL_##devices(name)
#include "tessera/graph/ops.def"
#undef TESSERA_KERNEL_none
#undef TESSERA_KERNEL_cpu
#undef TESSERA_KERNEL_all
};

}  // namespace

const OpKernel* kernel_of(Op op) { return kKernels[to_size(op)]; }

}  // namespace tessera::vulkan
