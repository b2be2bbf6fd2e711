// Shaders with cooperative matrices, as glslc can compile them. glslc of Debian 12 does not know
// VK_KHR_cooperative_matrix. It can name the type of a matrix by number, but not the type of its values: the shader has
// a constant in that place, the number of bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::vulkan {

/// Returns a module of SPIR-V in which the types of cooperative matrices have the float type of as many bits as the
/// constant in its place says. Errors: invalid_argument if the words are not a module, or lack that constant or type.
Result<std::vector<uint32_t>> with_value_types(std::span<const uint32_t> module);

}  // namespace tessera::vulkan
