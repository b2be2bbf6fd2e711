// Shaders with cooperative matrices, as glslc of Debian 12 can compile them: it knows only VK_NV_cooperative_matrix.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::vulkan {

/// Translates a module of SPIR-V from VK_NV_cooperative_matrix to VK_KHR_cooperative_matrix. The types of the latter
/// tell on which side of a product a matrix is. The module tells it by extents: 18 x 17 is the left side, 17 x 18 the
/// right side, and 18 x 18 the sum. In the result, all matrices are 16 x 16. Where all three matrices of a product are
/// sums, the result multiplies and adds elements, for which the former has no instructions. Errors: invalid_argument if
/// the words are not a module, or its matrices are others.
Result<std::vector<uint32_t>> to_khr_matrices(std::span<const uint32_t> module);

}  // namespace tessera::vulkan
