// Copies between the host and device memory that it cannot address, through a ring of staging buffers: the next buffer
// is filled while others are copied. Also copies within the device, without the host.
#pragma once

#include <array>
#include <mutex>
#include <span>

#include "tessera/vulkan/context.h"

namespace tessera::vulkan {

class Transfers {
 public:
  explicit Transfers(const Context& context) : context_(context) {}
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers();

  /// Allocates the staging buffers, unless the host can address the device's memory. Errors: out_of_memory.
  Result<> create();

  // Copy bytes to or from an offset of an allocation and return when the copy is complete. They may be called from any
  // thread while graphs run.
  Result<> write(const Allocation& to, size_t offset, std::span<const std::byte> bytes);
  Result<> read(const Allocation& from, size_t offset, std::span<std::byte> bytes);
  /// Copies within the device. The ranges must not overlap.
  Result<> copy(const Allocation& from, size_t from_offset, const Allocation& to, size_t to_offset, size_t bytes);
  /// Sets all bytes.
  Result<> fill(const Allocation& to, std::byte value);

 private:
  // A staging buffer with its copy in progress.
  struct Slot {
    Allocation staging;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkFence fence = VK_NULL_HANDLE;
    bool is_busy = false;
    std::span<std::byte> into;  // destination of the staged bytes after a read; empty for writes
  };
  static constexpr size_t kSlotBytes = size_t{1} << 20;

  Result<> begin(Slot& slot);
  Result<> submit(Slot& slot);
  Result<> submit_copy(Slot& slot, VkBuffer from, VkBuffer to, const VkBufferCopy& region);
  Result<> wait_for(Slot& slot);
  /// Waits for all slots, even after an error. Returns the first error.
  Result<> finish(Result<> outcome);
  Result<> start_writing(const Allocation& to, size_t offset, std::span<const std::byte> bytes);
  Result<> start_reading(const Allocation& from, size_t offset, std::span<std::byte> bytes);

  const Context& context_;
  std::mutex mutex_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::array<Slot, 4> slots_;
};

}  // namespace tessera::vulkan
