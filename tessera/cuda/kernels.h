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
static_assert(sizeof(KernelParams) == 544, "as in kernels/device.cuh");
/// Steps that a launch of some kernels may combine.
inline constexpr size_t kBatchSteps = 3;

/// The argument of the kernel `writes`: small writes to memory, in order. kernels/device.cuh declares the same struct.
inline constexpr size_t kMostWrites = 16, kMostWrittenBytes = 2048;
struct Writes {
  struct Range {
    uint64_t to;
    uint32_t begin, n_bytes;  // in `bytes`; begin is a multiple of 8
  };
  uint32_t n, n_bytes;
  std::array<Range, kMostWrites> ranges;
  alignas(8) std::array<std::byte, kMostWrittenBytes> bytes;
};
static_assert(sizeof(Writes) == 8 + 16 * kMostWrites + kMostWrittenBytes, "as in kernels/device.cuh");

/// Threads of a block unless a step says otherwise. It is also StepContext::n_lanes: the shared operations distribute
/// elements over so many threads.
inline constexpr uint32_t kDefaultThreads = 128;
/// Threads of one row in the kernels whose blocks have several short rows (kernels/math.cuh).
inline constexpr uint32_t kRowLanes = 16;
/// Norms (kernels/norm.cu): threads of a block, more for long rows, and the elements and threads of a row that does not
/// have a block of its own.
inline constexpr uint32_t kNormThreads = 256, kShortNorm = 256, kShortNormThreads = 32;
/// Threads of a warp.
inline constexpr uint32_t kWarp = 32;
/// expert_routes (kernels/experts.cu): the most threads of its block, and the experts whose pairs it counts at a time.
inline constexpr uint32_t kMostRoutesThreads = 1024, kRoutedExperts = 512;
/// Threads of a row of expert_sum, of four elements at a time.
inline constexpr uint32_t kSumThreads = 256;
/// The parameter of matmul_halves that chooses the order of columns (kernels/matmul.cu).
inline constexpr size_t kStepOrder = 1;
/// The first of two operands of norms: if they are there, their sum is computed too.
inline constexpr size_t kSumOperands = 3;
/// Bits of the variant of matmul_rows, and its parameters (kernels/matmul.cu).
inline constexpr uint32_t kPlainProduct = 1 << 16, kGatedProduct = 1 << 17;
inline constexpr size_t kYTokenBytes = 5, kGate = 7, kConstantWeights = 9;
/// Ranges of later weights that a plain product requests: operands and the unit of ne[0], in bytes.
inline constexpr size_t kFirstPrefetch = 3, kPrefetchRanges = 5, kPrefetchUnit = 16;
/// Variants of rope that also store rows in a cache, and the parameter of these (kernels/rope.cu).
inline constexpr uint32_t kRopeAndStore = 2, kStoreOnly = 3;
inline constexpr size_t kRowBytes = 2;

}  // namespace tessera::cuda
