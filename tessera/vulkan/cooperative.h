// Products on cooperative matrices (VK_KHR_cooperative_matrix): a subgroup multiplies matrices of 16 x 16 f16 values
// and sums in f32. Every product with weights uses them, except with weights of f32 and bf16, which have more
// precision. So a token has the same bits in any batch.
#pragma once

#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/gpu/step.h"
#include "tessera/vulkan/instance.h"

namespace tessera::vulkan {

inline constexpr const char* kCooperativeMatrixExtension = "VK_KHR_cooperative_matrix";

/// Subgroups of a workgroup, as in shaders/cooperative.glsl.
inline constexpr uint32_t kMatrixSubgroups = 8;

/// VkPhysicalDeviceCooperativeMatrixFeaturesKHR, which the headers of Debian 12 lack.
struct CooperativeMatrixFeatures {
  uint32_t sType = 1000506000;
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix = VK_FALSE;
  VkBool32 cooperativeMatrixRobustBufferAccess = VK_FALSE;
};

/// Returns the matrices of a device that the shaders can use: 16 x 16 x 16, f16 values summed in f32, and memory of a
/// workgroup for their operands. Options::emulates_matrices returns emulated ones.
gpu::Matrices find_matrices(const Instance& instance, VkPhysicalDevice device,
                            std::span<const VkExtensionProperties> extensions, uint32_t subgroup_size);

/// Computes a product of n_tokens <= 40 tokens and f16 weights on the device, from fixed values.
Result<std::vector<float>> compute_probe(const Device& device, int64_t n_tokens);
/// Whether two probes differ only by the rounding of one of them to f16.
bool probes_agree(std::span<const float> plain, std::span<const float> cooperative);
/// Whether a probe of fewer tokens has the bits of the first tokens of the other one.
bool begins_with(std::span<const float> many, std::span<const float> few);

}  // namespace tessera::vulkan
