#include "tessera/vulkan/context.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/vulkan/cooperative.h"

namespace tessera::vulkan {

namespace {

// The number of invocations that share a row of a product (matmul.glsl).
constexpr uint32_t kFewestLanes = 8;
constexpr size_t kGranule = 16;  // allocations are padded because shaders read whole words

// The features that the shaders require: buffer addresses instead of descriptors, and 64-bit arithmetic on them.
struct Features {
  VkPhysicalDeviceVulkan12Features v12{};
  VkPhysicalDeviceFeatures2 all{};

  Features() {
    v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    all.pNext = &v12;
  }
  Features(const Features&) = delete;
  Features& operator=(const Features&) = delete;
};

std::optional<uint32_t> find_memory(const VkPhysicalDeviceMemoryProperties& memory, VkMemoryPropertyFlags wanted) {
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i)
    if ((memory.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  return std::nullopt;
}

}  // namespace

Allocation::Allocation(Allocation&& other) noexcept { *this = std::move(other); }

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(buffer_, other.buffer_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(counted_bytes_, other.counted_bytes_);
  std::swap(address_, other.address_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Allocation::~Allocation() {
  if (context_ != nullptr) context_->give_back(*this);
}

Result<std::unique_ptr<Context>> Context::create(std::shared_ptr<const Instance> instance, VkPhysicalDevice device) {
  std::unique_ptr<Context> context(new Context);
  context->instance_ = std::move(instance);
  context->physical_ = device;
  TESSERA_TRY(context->read_properties());
  TESSERA_TRY(context->pick_queues());
  TESSERA_TRY(context->require_features());
  TESSERA_TRY(context->pick_memory());
  TESSERA_TRY(context->create_device());
  return context;
}

Context::~Context() {
  if (device_ != VK_NULL_HANDLE && api_.vkDestroyDevice != nullptr) api_.vkDestroyDevice(device_, nullptr);
}

Result<> Context::read_properties() {
  VkPhysicalDeviceVulkan12Properties v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  VkPhysicalDeviceVulkan11Properties v11{};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
  v11.pNext = &v12;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &v11;
  instance_->api().vkGetPhysicalDeviceProperties2(physical_, &properties);
  name_ = properties.properties.deviceName;
  api_version_ = properties.properties.apiVersion;
  if (api_version_ < VK_API_VERSION_1_2)
    return fail(ErrorCode::unsupported, "{}: Vulkan {}.{}, want 1.2", name_, VK_API_VERSION_MAJOR(api_version_),
                VK_API_VERSION_MINOR(api_version_));
  driver_version_ = properties.properties.driverVersion;
  std::ranges::copy(v11.deviceUUID, device_uuid_.begin());
  std::ranges::copy(properties.properties.pipelineCacheUUID, cache_uuid_.begin());
  clock_period_ns_ = double{properties.properties.limits.timestampPeriod};
  driver_ = std::string(v12.driverName) + " " + v12.driverInfo;
  type_ = properties.properties.deviceType;
  subgroup_size_ = std::max(v11.subgroupSize, 1u);
  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  const bool has_room =
      std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]) >= kLargeWorkgroup;
  if (has_room && subgroup_size_ >= kFewestLanes && subgroup_size_ <= kGpuLanes)
    shared_bytes_ = limits.maxComputeSharedMemorySize;
  const auto needed =
      static_cast<VkSubgroupFeatureFlags>(VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
  if ((v11.subgroupSupportedOperations & needed) != needed ||
      (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0)
    return fail(ErrorCode::unsupported, "{}: no sums over subgroups", name_);
  // A CPU runs one subgroup at a time, so more invocations would only wait for each other.
  n_lanes_ = type_ == VK_PHYSICAL_DEVICE_TYPE_CPU ? std::clamp(subgroup_size_, kFewestLanes, kGpuLanes) : kGpuLanes;
  if (instance_->options().n_lanes != 0) n_lanes_ = instance_->options().n_lanes;
  max_allocation_ = to_size(v11.maxMemoryAllocationSize);
  return {};
}

Result<> Context::pick_queues() {
  uint32_t n = 0;
  instance_->api().vkGetPhysicalDeviceQueueFamilyProperties(physical_, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  instance_->api().vkGetPhysicalDeviceQueueFamilyProperties(physical_, &n, families.data());
  const auto computes = std::ranges::find_if(
      families, [](const VkQueueFamilyProperties& family) { return (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0; });
  if (computes == families.end()) return fail(ErrorCode::unsupported, "{}: no queue that computes", name_);
  const auto family = static_cast<uint32_t>(computes - families.begin());
  clock_bits_ = computes->timestampValidBits;
  places_ = {QueuePlace{family, 0}, QueuePlace{family, computes->queueCount > 1 ? 1u : 0u}};
  // A queue family that supports only transfers is the device's copy engine.
  constexpr VkQueueFlags kWork = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
  const auto copies = std::ranges::find_if(families, [](const VkQueueFamilyProperties& one) {
    return (one.queueFlags & (kWork | VK_QUEUE_TRANSFER_BIT)) == VK_QUEUE_TRANSFER_BIT;
  });
  if (copies != families.end()) places_[1] = {static_cast<uint32_t>(copies - families.begin()), 0};
  return {};
}

Result<> Context::require_features() const {
  Features features;
  instance_->api().vkGetPhysicalDeviceFeatures2(physical_, &features.all);
  if (features.v12.bufferDeviceAddress == VK_FALSE)
    return fail(ErrorCode::unsupported, "{}: no buffer device addresses", name_);
  if (features.all.features.shaderInt64 == VK_FALSE)
    return fail(ErrorCode::unsupported, "{}: no 64-bit integers in shaders", name_);
  return {};
}

Result<> Context::pick_memory() {
  constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  VkPhysicalDeviceMemoryProperties2 memory{};
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  instance_->api().vkGetPhysicalDeviceMemoryProperties2(physical_, &memory);
  auto host = find_memory(memory.memoryProperties, kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  if (!host) host = find_memory(memory.memoryProperties, kHost);
  auto device = find_memory(memory.memoryProperties, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  // The mappable part of a discrete device's memory may be a small window.
  const bool is_unified = type_ == VK_PHYSICAL_DEVICE_TYPE_CPU || type_ == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  if (const auto both = find_memory(memory.memoryProperties, kHost | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
      is_unified && both) {
    device = both;
    maps_device_memory_ = instance_->options().maps_memory;
  }
  if (!host || !device) return fail(ErrorCode::unsupported, "{}: no memory that the host can write", name_);
  const auto heap = [&](uint32_t type) { return memory.memoryProperties.memoryTypes[type].heapIndex; };
  is_one_heap_ = heap(*host) == heap(*device);
  host_memory_type_ = *host;
  device_memory_type_ = *device;
  return {};
}

Result<> Context::create_device() {
  uint32_t n = 0;
  const auto& list = instance_->api().vkEnumerateDeviceExtensionProperties;
  TESSERA_TRY(check(list(physical_, nullptr, &n, nullptr), "vkEnumerateDeviceExtensionProperties"));
  std::vector<VkExtensionProperties> extensions(n);
  TESSERA_TRY(check(list(physical_, nullptr, &n, extensions.data()), "vkEnumerateDeviceExtensionProperties"));
  tells_budget_ = std::ranges::any_of(extensions, [](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) == 0;
  });

  Features features;
  features.v12.bufferDeviceAddress = VK_TRUE;
  features.all.features.shaderInt64 = VK_TRUE;
  CooperativeMatrixFeatures cooperative{.cooperativeMatrix = VK_TRUE};
  matrices_ = find_matrices(*instance_, physical_, extensions, subgroup_size_);
  const bool has_units = matrices_.n_lanes != 0 && !matrices_.is_emulated;
  if (matrices_.n_lanes != 0) features.v12.shaderFloat16 = VK_TRUE;
  if (has_units) {
    features.v12.vulkanMemoryModel = features.v12.vulkanMemoryModelDeviceScope = VK_TRUE;
    features.v12.pNext = &cooperative;
  }
  const float priorities[] = {1.0f, 1.0f};
  const bool is_one_family = places_[0].family == places_[1].family;
  std::array<VkDeviceQueueCreateInfo, 2> queues{};
  for (size_t i = 0; i < queues.size(); ++i)
    queues[i] = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                 .pNext = nullptr,
                 .flags = 0,
                 .queueFamilyIndex = places_[i].family,
                 .queueCount = is_one_family ? places_[1].index + 1 : 1,
                 .pQueuePriorities = priorities};
  std::vector<const char*> names;
  if (tells_budget_) names.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (has_units) names.push_back(kCooperativeMatrixExtension);
  const VkDeviceCreateInfo info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                .pNext = &features.all,
                                .flags = 0,
                                .queueCreateInfoCount = is_one_family ? 1u : 2u,
                                .pQueueCreateInfos = queues.data(),
                                .enabledLayerCount = 0,
                                .ppEnabledLayerNames = nullptr,
                                .enabledExtensionCount = static_cast<uint32_t>(names.size()),
                                .ppEnabledExtensionNames = names.data(),
                                .pEnabledFeatures = nullptr};
  TESSERA_TRY(check(instance_->api().vkCreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice"));
#define TESSERA_VK_LOAD(name)                                                                     \
  api_.name = reinterpret_cast<PFN_##name>(instance_->api().vkGetDeviceProcAddr(device_, #name)); \
  if (api_.name == nullptr) return fail(ErrorCode::not_found, "{}: the driver has no " #name, name_);
  TESSERA_VK_DEVICE_FUNCTIONS(TESSERA_VK_LOAD)
#undef TESSERA_VK_LOAD
  for (size_t i = 0; i < queues_.size(); ++i)
    api_.vkGetDeviceQueue(device_, places_[i].family, places_[i].index, &queues_[i]);
  return {};
}

uint64_t Context::total_bytes() const {
  VkPhysicalDeviceMemoryProperties2 memory{};
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  instance_->api().vkGetPhysicalDeviceMemoryProperties2(physical_, &memory);
  const uint32_t heap = memory.memoryProperties.memoryTypes[device_memory_type_].heapIndex;
  return std::min(uint64_t{memory.memoryProperties.memoryHeaps[heap].size}, max_bytes());
}

uint64_t Context::max_bytes() const {
  const auto& limit = instance_->options().max_bytes;
  return limit == nullptr ? UINT64_MAX : limit->load();
}

uint64_t Context::free_bytes() const {
  const uint64_t total = total_bytes(), taken = taken_bytes_;
  if (!tells_budget_ || instance_->options().max_bytes != nullptr) return total - std::min(total, taken);
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 memory{};
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  memory.pNext = &budget;
  instance_->api().vkGetPhysicalDeviceMemoryProperties2(physical_, &memory);
  const uint32_t heap = memory.memoryProperties.memoryTypes[device_memory_type_].heapIndex;
  return budget.heapBudget[heap] - std::min(budget.heapBudget[heap], budget.heapUsage[heap]);
}

Result<Allocation> Context::allocate(size_t bytes, MemoryKind kind) const {
  const auto size = checked_round_up(std::max(bytes, kGranule), kGranule);
  const auto refused = [&] { return fail(ErrorCode::out_of_memory, "{} refuses {} bytes of memory", name_, bytes); };
  if (!size || *size > max_allocation_) return refused();
  Allocation allocation;
  allocation.context_ = this;
  allocation.bytes_ = *size;
  allocation.counted_bytes_ = kind == MemoryKind::device || is_one_heap_ ? *size : 0;
  const uint64_t taken = taken_bytes_.fetch_add(allocation.counted_bytes_) + allocation.counted_bytes_;
  if (allocation.counted_bytes_ != 0 && taken > max_bytes()) return refused();

  const uint32_t families[] = {places_[0].family, places_[1].family};
  const bool is_one_family = families[0] == families[1];
  const VkBufferCreateInfo buffer{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                  .pNext = nullptr,
                                  .flags = 0,
                                  .size = *size,
                                  .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                           VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
                                  .sharingMode = is_one_family ? VK_SHARING_MODE_EXCLUSIVE : VK_SHARING_MODE_CONCURRENT,
                                  .queueFamilyIndexCount = is_one_family ? 0u : 2u,
                                  .pQueueFamilyIndices = families};
  TESSERA_TRY(check(api_.vkCreateBuffer(device_, &buffer, nullptr, &allocation.buffer_), "vkCreateBuffer"));
  VkMemoryRequirements needs{};
  api_.vkGetBufferMemoryRequirements(device_, allocation.buffer_, &needs);
  const uint32_t type = kind == MemoryKind::host ? host_memory_type_ : device_memory_type_;
  if ((needs.memoryTypeBits >> type & 1) == 0)
    return fail(ErrorCode::unsupported, "{}: memory of type {} cannot hold buffers", name_, type);
  const VkMemoryAllocateFlagsInfo flags{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                        .pNext = nullptr,
                                        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
                                        .deviceMask = 0};
  const VkMemoryAllocateInfo memory{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                    .pNext = &flags,
                                    .allocationSize = needs.size,
                                    .memoryTypeIndex = type};
  if (needs.size > max_allocation_ ||
      api_.vkAllocateMemory(device_, &memory, nullptr, &allocation.memory_) != VK_SUCCESS)
    return refused();
  TESSERA_TRY(check(api_.vkBindBufferMemory(device_, allocation.buffer_, allocation.memory_, 0), "vkBindBufferMemory"));
  if (kind == MemoryKind::host || maps_device_memory_) {
    void* mapped = nullptr;
    TESSERA_TRY(check(api_.vkMapMemory(device_, allocation.memory_, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory"));
    allocation.mapped_ = static_cast<std::byte*>(mapped);
  }
  const VkBufferDeviceAddressInfo address{
      .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .pNext = nullptr, .buffer = allocation.buffer_};
  allocation.address_ = api_.vkGetBufferDeviceAddress(device_, &address);
  return allocation;
}

void Context::give_back(Allocation& allocation) const {
  if (allocation.buffer_ != VK_NULL_HANDLE) api_.vkDestroyBuffer(device_, allocation.buffer_, nullptr);
  if (allocation.memory_ != VK_NULL_HANDLE) api_.vkFreeMemory(device_, allocation.memory_, nullptr);
  taken_bytes_ -= allocation.counted_bytes_;
}

Result<> Context::submit(Queue queue, std::span<const VkCommandBuffer> commands, VkFence fence) const {
  const VkSubmitInfo info{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                          .pNext = nullptr,
                          .waitSemaphoreCount = 0,
                          .pWaitSemaphores = nullptr,
                          .pWaitDstStageMask = nullptr,
                          .commandBufferCount = static_cast<uint32_t>(commands.size()),
                          .pCommandBuffers = commands.data(),
                          .signalSemaphoreCount = 0,
                          .pSignalSemaphores = nullptr};
  const size_t i = has_transfer_queue() ? to_size(queue) : 0;
  const std::lock_guard lock(queue_mutexes_[i]);
  return check(api_.vkQueueSubmit(queues_[i], 1, &info, fence), "vkQueueSubmit");
}

Result<> Context::wait(VkFence fence) const {
  TESSERA_TRY(check(api_.vkWaitForFences(device_, 1, &fence, VK_TRUE, UINT64_MAX), "vkWaitForFences"));
  return check(api_.vkResetFences(device_, 1, &fence), "vkResetFences");
}

Result<VkFence> Context::create_fence() const {
  const VkFenceCreateInfo info{.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, .pNext = nullptr, .flags = 0};
  VkFence fence = VK_NULL_HANDLE;
  TESSERA_TRY(check(api_.vkCreateFence(device_, &info, nullptr, &fence), "vkCreateFence"));
  return fence;
}

Result<VkCommandPool> Context::create_pool(Queue queue) const {
  const VkCommandPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                     .pNext = nullptr,
                                     .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                     .queueFamilyIndex = places_[to_size(queue)].family};
  VkCommandPool pool = VK_NULL_HANDLE;
  TESSERA_TRY(check(api_.vkCreateCommandPool(device_, &info, nullptr, &pool), "vkCreateCommandPool"));
  return pool;
}

Result<VkCommandBuffer> Context::create_commands(VkCommandPool pool) const {
  const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                         .pNext = nullptr,
                                         .commandPool = pool,
                                         .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                         .commandBufferCount = 1};
  VkCommandBuffer commands = VK_NULL_HANDLE;
  TESSERA_TRY(check(api_.vkAllocateCommandBuffers(device_, &info, &commands), "vkAllocateCommandBuffers"));
  return commands;
}

}  // namespace tessera::vulkan
