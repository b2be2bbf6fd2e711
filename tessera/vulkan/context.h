// A logical device: its queues, memory and limits. The other files of this folder use Vulkan through it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "tessera/gpu/step.h"
#include "tessera/vulkan/instance.h"

namespace tessera::vulkan {

/// The location of an allocation: the device's memory, or coherent memory that host and device can both access.
enum class MemoryKind : uint8_t { device, host };

/// Copies use a separate queue if the device has more than one, so that they overlap with computation.
enum class Queue : uint8_t { compute, transfer };

/// Invocations per workgroup on a GPU: enough to saturate its memory, few enough that short rows occupy all of it. A
/// few shaders have larger workgroups.
inline constexpr uint32_t kGpuLanes = 64, kLargeWorkgroup = 256;

class Context;

/// A buffer with its own memory and an address. Device memory is mapped too if the host can address it.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation();

  VkBuffer buffer() const { return buffer_; }
  size_t bytes() const { return bytes_; }
  VkDeviceAddress address() const { return address_; }
  /// Null if the host cannot address it.
  std::byte* mapped() const { return mapped_; }

 private:
  friend class Context;
  const Context* context_ = nullptr;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  size_t bytes_ = 0;
  size_t counted_bytes_ = 0;  // bytes that count against the device's memory
  VkDeviceAddress address_ = 0;
  std::byte* mapped_ = nullptr;
};

class Context {
 public:
  /// Errors: unsupported (names the feature that the device lacks), io, out_of_memory.
  static Result<std::unique_ptr<Context>> create(std::shared_ptr<const Instance> instance, VkPhysicalDevice device);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  const DeviceApi& api() const { return api_; }
  const Instance& instance() const { return *instance_; }
  VkDevice device() const { return device_; }

  const std::string& name() const { return name_; }
  const std::string& driver() const { return driver_; }
  uint32_t api_version() const { return api_version_; }
  uint32_t driver_version() const { return driver_version_; }
  /// The device and the driver's compiler, on which compiled pipelines depend.
  const std::array<uint8_t, VK_UUID_SIZE>& device_uuid() const { return device_uuid_; }
  const std::array<uint8_t, VK_UUID_SIZE>& cache_uuid() const { return cache_uuid_; }
  VkPhysicalDeviceType type() const { return type_; }
  uint32_t subgroup_size() const { return subgroup_size_; }
  /// Invocations per workgroup, for all shaders.
  uint32_t n_lanes() const { return n_lanes_; }
  /// Whether this is a device with workgroups of kGpuLanes invocations and, for a few shaders, of kLargeWorkgroup.
  bool has_large_workgroups() const { return n_lanes_ == kGpuLanes && shared_bytes_ != 0; }
  /// Shared memory of a workgroup of 256 invocations; 0 if the device has no such workgroups, or subgroups of less than
  /// 8 or more than 64 invocations, which attention_tiles.comp cannot use.
  int64_t shared_bytes() const { return shared_bytes_; }
  /// The cooperative matrices with which the device was created.
  const gpu::Matrices& matrices() const { return matrices_; }
  size_t max_allocation() const { return max_allocation_; }
  /// Valid bits of the timestamps that commands can write; 0: no clock.
  uint32_t clock_bits() const { return clock_bits_; }
  double clock_period_ns() const { return clock_period_ns_; }
  /// Whether the host can address all of the device's memory.
  bool maps_device_memory() const { return maps_device_memory_; }
  bool has_transfer_queue() const { return places_[0] != places_[1]; }
  uint64_t total_bytes() const;
  /// The rest of the budget if the driver reports one, else total_bytes() minus the bytes allocated by this process.
  uint64_t free_bytes() const;

  /// Allocates uninitialized memory. Errors: out_of_memory.
  Result<Allocation> allocate(size_t bytes, MemoryKind kind) const;

  /// Submits command buffers to a queue. May be called from any thread.
  Result<> submit(Queue queue, std::span<const VkCommandBuffer> commands, VkFence fence) const;
  /// Waits for a fence and resets it.
  Result<> wait(VkFence fence) const;
  Result<VkFence> create_fence() const;
  Result<VkCommandPool> create_pool(Queue queue = Queue::compute) const;
  Result<VkCommandBuffer> create_commands(VkCommandPool pool) const;

 private:
  friend class Allocation;
  Context() = default;
  uint64_t max_bytes() const;
  Result<> require_features() const;
  Result<> read_properties();
  Result<> pick_queues();
  Result<> pick_memory();
  Result<> create_device();
  void give_back(Allocation& allocation) const;

  std::shared_ptr<const Instance> instance_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  DeviceApi api_;
  // Indexed by Queue; both may be the same.
  struct QueuePlace {
    uint32_t family = 0, index = 0;
    bool operator==(const QueuePlace&) const = default;
  };
  std::array<QueuePlace, 2> places_;
  std::array<VkQueue, 2> queues_{};
  mutable std::array<std::mutex, 2> queue_mutexes_;

  std::string name_, driver_;
  uint32_t api_version_ = 0, driver_version_ = 0;
  std::array<uint8_t, VK_UUID_SIZE> device_uuid_{}, cache_uuid_{};
  uint32_t clock_bits_ = 0;
  double clock_period_ns_ = 0;
  VkPhysicalDeviceType type_ = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  uint32_t subgroup_size_ = 1, n_lanes_ = 1;
  gpu::Matrices matrices_;
  int64_t shared_bytes_ = 0;
  size_t max_allocation_ = 0;
  uint32_t device_memory_type_ = 0, host_memory_type_ = 0;
  bool maps_device_memory_ = false, tells_budget_ = false;
  bool is_one_heap_ = true;  // host-visible and device memory come from the same heap
  mutable std::atomic<uint64_t> taken_bytes_{0};
};

}  // namespace tessera::vulkan
