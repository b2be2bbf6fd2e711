#include "tessera/vulkan/cooperative.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/index.h"
#include "tessera/base/rng.h"
#include "tessera/graph/builder.h"

namespace tessera::vulkan {

namespace {

// Sizes that are not multiples of a tile of 32 or of a chunk of 64 columns.
constexpr int64_t kColumns = 96, kRows = 48, kTokens = 40;
// Both factors are rounded by up to 2^-11, a mean square of 2^-22 / 3 each. The limit is 60 times the sum of both.
constexpr double kMaxError = 1e-5;

bool suits(const VkCooperativeMatrixPropertiesNV& p) {
  return p.MSize == 16 && p.NSize == 16 && p.KSize == 16 && p.AType == VK_COMPONENT_TYPE_FLOAT16_NV &&
         p.BType == VK_COMPONENT_TYPE_FLOAT16_NV && p.CType == VK_COMPONENT_TYPE_FLOAT32_NV &&
         p.DType == VK_COMPONENT_TYPE_FLOAT32_NV && p.scope == VK_SCOPE_SUBGROUP_NV;
}

}  // namespace

bool has_cooperative_matrices(const Instance& instance, VkPhysicalDevice device,
                              std::span<const VkExtensionProperties> extensions, uint32_t subgroup_size) {
  const bool is_listed = std::ranges::any_of(extensions, [](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME) == 0;
  });
  const auto list = instance.cooperative_matrices();
  if (!is_listed || list == nullptr || subgroup_size != 32) return false;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{};
  matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV;
  VkPhysicalDeviceVulkan12Features v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  v12.pNext = &matrices;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &v12;
  instance.api().vkGetPhysicalDeviceFeatures2(device, &features);
  if (matrices.cooperativeMatrix == VK_FALSE || v12.shaderFloat16 == VK_FALSE || v12.vulkanMemoryModel == VK_FALSE)
    return false;
  uint32_t n = 0;
  if (list(device, &n, nullptr) != VK_SUCCESS) return false;
  VkCooperativeMatrixPropertiesNV empty{};
  empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV;
  std::vector<VkCooperativeMatrixPropertiesNV> shapes(n, empty);
  return list(device, &n, shapes.data()) == VK_SUCCESS && std::ranges::any_of(shapes, suits);
}

Result<std::vector<float>> compute_probe(const Device& device) {
  Rng rng(1);
  const auto random = [&](int64_t n) {
    std::vector<float> values(to_size(n));
    for (float& v : values) v = rng.next_float(-1.0f, 1.0f);
    return values;
  };
  GraphBuilder b;
  const Value w = b.input("w", DType::f32, {kColumns, kRows}), x = b.input("x", DType::f32, {kColumns, kTokens});
  const Value y = b.mul_mat(w, x);
  b.output(y, "y");
  TESSERA_ASSIGN(const Graph graph, std::move(b).finish());
  TESSERA_ASSIGN(const auto backend, device.create_backend({}));
  TESSERA_ASSIGN(const size_t work_bytes, backend->work_bytes(graph));
  const BufferType& type = device.buffer_type();
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Tensor> tensors;
  for (const Node& node : graph.nodes()) {
    Tensor tensor{node.spec, node.name};
    TESSERA_ASSIGN(auto buffer, type.allocate(span_bytes(tensor.dtype, tensor.layout), BufferUsage::compute));
    tensor.buffer_type = &type;
    tensor.buffer = buffer.get();
    buffers.push_back(std::move(buffer));
    tensors.push_back(std::move(tensor));
  }
  TESSERA_ASSIGN(const auto work, type.allocate(work_bytes, BufferUsage::compute));
  TESSERA_ASSIGN(const auto plan,
                 backend->compile(graph, tensors, {.buffer = work.get(), .offset = 0, .bytes = work_bytes}));
  const auto at = [&](Value v) -> const Tensor& { return tensors[to_size(v.id())]; };
  const std::vector<float> w_values = random(kColumns * kRows), x_values = random(kColumns * kTokens);
  TESSERA_TRY(at(w).buffer->set(at(w), 0, std::as_bytes(std::span(w_values))));
  TESSERA_TRY(at(x).buffer->set(at(x), 0, std::as_bytes(std::span(x_values))));
  TESSERA_TRY(backend->run(*plan, nullptr));
  std::vector<float> values(to_size(kRows * kTokens));
  TESSERA_TRY(at(y).buffer->get(at(y), 0, std::as_writable_bytes(std::span(values))));
  return values;
}

bool probes_agree(std::span<const float> plain, std::span<const float> cooperative) {
  if (plain.size() != cooperative.size()) return false;
  double error = 0, power = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    error += (double{cooperative[i]} - plain[i]) * (double{cooperative[i]} - plain[i]);
    power += double{plain[i]} * plain[i];
  }
  return power > 0 && error <= kMaxError * power;  // false for a NaN
}

}  // namespace tessera::vulkan
