#include "tessera/vulkan/cooperative.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/half.h"
#include "tessera/base/index.h"
#include "tessera/base/rng.h"
#include "tessera/graph/builder.h"

namespace tessera::vulkan {

namespace {

// Sizes that are not multiples of a tile, of a chunk of 64 columns or of a segment.
constexpr int64_t kColumns = 352, kRows = 80, kMostTokens = 40;
// A factor is rounded by up to 2^-11 of its size, a mean square of at most 2^-22 / 3. The limit is 12 times that.
constexpr double kMaxError = 1e-6;

// VkCooperativeMatrixPropertiesKHR, and the values of its fields that matter here.
struct MatrixShape {
  uint32_t sType = 1000506001;
  void* pNext = nullptr;
  uint32_t m = 0, n = 0, k = 0;
  uint32_t a = 0, b = 0, c = 0, result = 0;
  VkBool32 saturates = VK_FALSE;
  uint32_t scope = 0;
};
constexpr uint32_t kFloat16 = 0, kFloat32 = 1, kSubgroupScope = 3;
// As the shaders' shared arrays take.
constexpr uint32_t kSharedBytes = 32768;

bool suits(const MatrixShape& p) {
  return p.m == 16 && p.n == 16 && p.k == 16 && p.a == kFloat16 && p.b == kFloat16 && p.c == kFloat32 &&
         p.result == kFloat32 && p.scope == kSubgroupScope;
}

bool has_suitable_shape(const Instance& instance, VkPhysicalDevice device) {
  using List = VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*, MatrixShape*);
  const auto list = reinterpret_cast<List>(instance.cooperative_matrix_shapes());
  uint32_t n = 0;
  if (list == nullptr || list(device, &n, nullptr) != VK_SUCCESS) return false;
  std::vector<MatrixShape> shapes(n);
  return list(device, &n, shapes.data()) == VK_SUCCESS && std::ranges::any_of(shapes, suits);
}

bool has_extension(std::span<const VkExtensionProperties> extensions) {
  return std::ranges::any_of(extensions, [](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, kCooperativeMatrixExtension) == 0;
  });
}

}  // namespace

gpu::Matrices find_matrices(const Instance& instance, VkPhysicalDevice device,
                            std::span<const VkExtensionProperties> extensions, uint32_t subgroup_size) {
  const bool is_emulated = instance.options().emulates_matrices;
  const bool is_listed = has_extension(extensions);
  if (!is_emulated && (!instance.options().has_matrices || !is_listed)) return {};
  CooperativeMatrixFeatures matrices;
  VkPhysicalDeviceVulkan12Features v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  if (is_listed) v12.pNext = &matrices;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &v12;
  instance.api().vkGetPhysicalDeviceFeatures2(device, &features);
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  instance.api().vkGetPhysicalDeviceProperties2(device, &properties);
  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  // Emulated matrices have eight invocations or more.
  if (v12.shaderFloat16 == VK_FALSE || limits.maxComputeSharedMemorySize < kSharedBytes || subgroup_size < 8 ||
      subgroup_size > 64 || limits.maxComputeWorkGroupInvocations < kMatrixSubgroups * subgroup_size)
    return {};
  if (is_emulated) return {.n_lanes = subgroup_size, .is_emulated = true};
  if (matrices.cooperativeMatrix == VK_FALSE || v12.vulkanMemoryModel == VK_FALSE ||
      v12.vulkanMemoryModelDeviceScope == VK_FALSE || !has_suitable_shape(instance, device))
    return {};
  return {.n_lanes = subgroup_size};
}

Result<std::vector<float>> compute_probe(const Device& device, int64_t n_tokens) {
  Rng rng(1);
  const auto random = [&](int64_t n) {
    std::vector<float> values(to_size(n));
    for (float& v : values) v = rng.next_float(-1.0f, 1.0f);
    return values;
  };
  GraphBuilder b;
  const Value w = b.input("w", DType::f16, {kColumns, kRows}), x = b.input("x", DType::f32, {kColumns, n_tokens});
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
  std::vector<uint16_t> w_values;
  for (const float v : random(kColumns * kRows)) w_values.push_back(f32_to_f16(v));
  std::vector<float> x_values = random(kColumns * kMostTokens);
  x_values.resize(to_size(kColumns * n_tokens));
  TESSERA_TRY(at(w).buffer->set(at(w), 0, std::as_bytes(std::span(w_values))));
  TESSERA_TRY(at(x).buffer->set(at(x), 0, std::as_bytes(std::span(x_values))));
  TESSERA_TRY(backend->run(*plan, nullptr));
  std::vector<float> values(to_size(kRows * n_tokens));
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

bool begins_with(std::span<const float> many, std::span<const float> few) {
  return few.size() <= many.size() && std::memcmp(many.data(), few.data(), few.size_bytes()) == 0;
}

}  // namespace tessera::vulkan
