// Copies between the host and memory that it cannot address, through a ring of staging memory: while one part is on
// its way the next is filled.
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

  Result<> create();

  // Bytes at an offset of an allocation; done when they return. Any thread.
  Result<> write(const Allocation& to, size_t offset, std::span<const std::byte> bytes);
  Result<> read(const Allocation& from, size_t offset, std::span<std::byte> bytes);
  /// Sets all bytes.
  Result<> fill(const Allocation& to, std::byte value);

 private:
  struct Slot {
    Allocation staging;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkFence fence = VK_NULL_HANDLE;
    bool is_busy = false;
  };
  static constexpr size_t kSlotBytes = size_t{4} << 20;

  Result<> run(Slot& slot, VkBuffer from, VkBuffer to, const VkBufferCopy& region);
  Result<> wait_for(Slot& slot);
  Result<> wait_for_all();

  const Context& context_;
  std::mutex mutex_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::array<Slot, 2> slots_;
};

}  // namespace tessera::vulkan
