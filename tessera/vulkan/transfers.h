// Copies between the host and memory that it cannot address, through a ring of staging memory: while some parts are on
// their way the next is filled. And copies within the device, which the host takes no part in.
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

  /// Takes all memory that will be used: none where the host can address the device's. Errors: out_of_memory.
  Result<> create();

  // Bytes at an offset of an allocation; done when they return. Any thread, beside graphs that run.
  Result<> write(const Allocation& to, size_t offset, std::span<const std::byte> bytes);
  Result<> read(const Allocation& from, size_t offset, std::span<std::byte> bytes);
  /// The ranges do not overlap.
  Result<> copy(const Allocation& from, size_t from_offset, const Allocation& to, size_t to_offset, size_t bytes);
  /// Sets all bytes.
  Result<> fill(const Allocation& to, std::byte value);

 private:
  // A part on its way.
  struct Slot {
    Allocation staging;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkFence fence = VK_NULL_HANDLE;
    bool is_busy = false;
    std::span<std::byte> into;  // where the host wants what is in the staging memory then
  };
  static constexpr size_t kSlotBytes = size_t{1} << 20;

  Result<> begin(Slot& slot);
  Result<> submit(Slot& slot);
  Result<> submit_copy(Slot& slot, VkBuffer from, VkBuffer to, const VkBufferCopy& region);
  Result<> wait_for(Slot& slot);
  /// Waits for all, whatever has gone wrong before.
  Result<> finish(Result<> outcome);
  Result<> start_writing(const Allocation& to, size_t offset, std::span<const std::byte> bytes);
  Result<> start_reading(const Allocation& from, size_t offset, std::span<std::byte> bytes);

  const Context& context_;
  std::mutex mutex_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::array<Slot, 4> slots_;
};

}  // namespace tessera::vulkan
