// The kernels of products and attention; those of the other operations are in gpu/ops.
#pragma once

#include "tessera/gpu/step.h"

namespace tessera::vulkan {

using namespace gpu;  // steps and their parameters

extern const OpKernel kProduct;    // ops/matmul.cpp
extern const OpKernel kAttention;  // ops/attention.cpp

inline constexpr OwnKernels kOwnKernels{.product = &kProduct, .attention = &kAttention};

}  // namespace tessera::vulkan
