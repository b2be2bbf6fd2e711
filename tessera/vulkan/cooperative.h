// Products on cooperative matrices (VK_NV_cooperative_matrix), where TESSERA_VULKAN_COOPMAT=1 asks for them: products
// of f16 with sums in f32 for more than eight tokens, so a token's bits depend on its batch.
#pragma once

#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/vulkan/instance.h"

namespace tessera::vulkan {

/// Whether a device has what matmul_cooperative.comp is written for: matrices of 16 x 16 x 16, f16 summed up in f32,
/// in subgroups of 32.
bool has_cooperative_matrices(const Instance& instance, VkPhysicalDevice device,
                              std::span<const VkExtensionProperties> extensions, uint32_t subgroup_size);

/// A product of many tokens on the device, always of the same values.
Result<std::vector<float>> compute_probe(const Device& device);
/// Whether two probes differ by no more than rounding to f16 explains.
bool probes_agree(std::span<const float> plain, std::span<const float> cooperative);

}  // namespace tessera::vulkan
