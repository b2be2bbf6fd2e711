// Products on cooperative matrices (VK_NV_cooperative_matrix), enabled by TESSERA_VULKAN_COOPMAT=1. They multiply f16
// values and sum in f32, for more than eight tokens. With them, the bits of a token's results depend on its batch.
#pragma once

#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/vulkan/instance.h"

namespace tessera::vulkan {

/// Whether a device has the features that matmul_cooperative.comp requires: matrices of 16 x 16 x 16, f16 values summed
/// in f32, subgroups of 32.
bool has_cooperative_matrices(const Instance& instance, VkPhysicalDevice device,
                              std::span<const VkExtensionProperties> extensions, uint32_t subgroup_size);

/// Computes a product for many tokens on the device, from fixed values.
Result<std::vector<float>> compute_probe(const Device& device);
/// Whether two probes differ only by the rounding to f16.
bool probes_agree(std::span<const float> plain, std::span<const float> cooperative);

}  // namespace tessera::vulkan
