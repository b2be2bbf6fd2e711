// The kernels of products and attention; those of the other operations are in gpu/ops.
#pragma once

#include "tessera/gpu/step.h"

namespace tessera::cuda {

using namespace gpu;  // steps and their parameters

extern const OpKernel kProduct;    // ops/matmul.cpp
extern const OpKernel kAttention;  // ops/attention.cpp

inline constexpr OwnKernels kOwnKernels{.product = &kProduct, .attention = &kAttention};

/// The argument of a kernel; kernels/device.cuh declares the same struct.
struct KernelParams {
  StepParams step;
  uint32_t variant = 0, format = 0, format2 = 0, first_block = 0;
};
static_assert(sizeof(KernelParams) == 504, "as in kernels/device.cuh");
/// Steps that a launch of some kernels may combine.
inline constexpr size_t kBatchSteps = 3;

/// Threads of a block unless a step says otherwise. It is also StepContext::n_lanes: the shared operations distribute
/// elements over so many threads.
inline constexpr uint32_t kDefaultThreads = 128;
/// Threads of one row in the kernels whose blocks have several short rows (kernels/math.cuh).
inline constexpr uint32_t kRowLanes = 16;
/// Norms (kernels/norm.cu): threads of a block, more for long rows, and the elements and threads of a row that does not
/// have a block of its own.
inline constexpr uint32_t kNormThreads = 256, kShortNorm = 256, kShortNormThreads = 32;
/// The parameter of matmul_halves that chooses the order of columns (kernels/matmul.cu).
inline constexpr size_t kStepOrder = 1;
/// The first of two operands of norms: if they are there, their sum is computed too.
inline constexpr size_t kSumOperands = 3;

}  // namespace tessera::cuda
