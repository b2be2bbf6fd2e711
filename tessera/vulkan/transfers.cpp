#include "tessera/vulkan/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tessera::vulkan {

namespace {

constexpr VkCommandBufferBeginInfo kOnce{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .pNext = nullptr,
                                         .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
                                         .pInheritanceInfo = nullptr};

}  // namespace

Transfers::~Transfers() {
  for (Slot& slot : slots_)
    if (slot.fence != VK_NULL_HANDLE) context_.api().vkDestroyFence(context_.device(), slot.fence, nullptr);
  if (pool_ != VK_NULL_HANDLE) context_.api().vkDestroyCommandPool(context_.device(), pool_, nullptr);
}

Result<> Transfers::create() {
  TESSERA_ASSIGN(pool_, context_.create_pool(Queue::transfer));
  for (Slot& slot : slots_) {
    TESSERA_ASSIGN(slot.commands, context_.create_commands(pool_));
    TESSERA_ASSIGN(slot.fence, context_.create_fence());
    if (context_.maps_device_memory()) continue;
    TESSERA_ASSIGN(slot.staging, context_.allocate(kSlotBytes, MemoryKind::host));
  }
  return {};
}

Result<> Transfers::begin(Slot& slot) {
  const DeviceApi& api = context_.api();
  TESSERA_TRY(check(api.vkBeginCommandBuffer(slot.commands, &kOnce), "vkBeginCommandBuffer"));
  const VkMemoryBarrier written{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                .pNext = nullptr,
                                .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
  api.vkCmdPipelineBarrier(slot.commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
                           &written, 0, nullptr, 0, nullptr);
  return {};
}

// Uses ALL_COMMANDS because a queue that only copies does not support the compute stage.
Result<> Transfers::submit(Slot& slot) {
  const DeviceApi& api = context_.api();
  const VkMemoryBarrier seen{
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .pNext = nullptr,
      .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
      .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
  api.vkCmdPipelineBarrier(slot.commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                           VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &seen, 0, nullptr, 0,
                           nullptr);
  TESSERA_TRY(check(api.vkEndCommandBuffer(slot.commands), "vkEndCommandBuffer"));
  TESSERA_TRY(context_.submit(Queue::transfer, {&slot.commands, 1}, slot.fence));
  slot.is_busy = true;
  return {};
}

Result<> Transfers::submit_copy(Slot& slot, VkBuffer from, VkBuffer to, const VkBufferCopy& region) {
  TESSERA_TRY(begin(slot));
  context_.api().vkCmdCopyBuffer(slot.commands, from, to, 1, &region);
  return submit(slot);
}

Result<> Transfers::wait_for(Slot& slot) {
  const std::span<std::byte> into = std::exchange(slot.into, {});
  if (!std::exchange(slot.is_busy, false)) return {};
  TESSERA_TRY(context_.wait(slot.fence));
  std::copy_n(slot.staging.mapped(), into.size(), into.data());
  return {};
}

Result<> Transfers::finish(Result<> outcome) {
  for (Slot& slot : slots_)
    if (auto waited = wait_for(slot); !waited && outcome) outcome = std::move(waited);
  return outcome;
}

Result<> Transfers::start_writing(const Allocation& to, size_t offset, std::span<const std::byte> bytes) {
  for (size_t done = 0, i = 0; done < bytes.size(); ++i) {
    Slot& slot = slots_[i % slots_.size()];
    const size_t n = std::min(kSlotBytes, bytes.size() - done);
    TESSERA_TRY(wait_for(slot));
    std::memcpy(slot.staging.mapped(), bytes.data() + done, n);
    TESSERA_TRY(
        submit_copy(slot, slot.staging.buffer(), to.buffer(), {.srcOffset = 0, .dstOffset = offset + done, .size = n}));
    done += n;
  }
  return {};
}

Result<> Transfers::start_reading(const Allocation& from, size_t offset, std::span<std::byte> bytes) {
  for (size_t done = 0, i = 0; done < bytes.size(); ++i) {
    Slot& slot = slots_[i % slots_.size()];
    const size_t n = std::min(kSlotBytes, bytes.size() - done);
    TESSERA_TRY(wait_for(slot));
    TESSERA_TRY(submit_copy(slot, from.buffer(), slot.staging.buffer(),
                            {.srcOffset = offset + done, .dstOffset = 0, .size = n}));
    slot.into = bytes.subspan(done, n);
    done += n;
  }
  return {};
}

Result<> Transfers::write(const Allocation& to, size_t offset, std::span<const std::byte> bytes) {
  if (to.mapped() != nullptr) {
    std::copy_n(bytes.data(), bytes.size(), to.mapped() + offset);
    return {};
  }
  const std::lock_guard lock(mutex_);
  return finish(start_writing(to, offset, bytes));
}

Result<> Transfers::read(const Allocation& from, size_t offset, std::span<std::byte> bytes) {
  if (from.mapped() != nullptr) {
    std::copy_n(from.mapped() + offset, bytes.size(), bytes.data());
    return {};
  }
  const std::lock_guard lock(mutex_);
  return finish(start_reading(from, offset, bytes));
}

Result<> Transfers::copy(const Allocation& from, size_t from_offset, const Allocation& to, size_t to_offset,
                         size_t bytes) {
  if (bytes == 0) return {};
  if (from.mapped() != nullptr && to.mapped() != nullptr) {
    std::memcpy(to.mapped() + to_offset, from.mapped() + from_offset, bytes);
    return {};
  }
  const std::lock_guard lock(mutex_);
  return finish(submit_copy(slots_[0], from.buffer(), to.buffer(),
                            {.srcOffset = from_offset, .dstOffset = to_offset, .size = bytes}));
}

Result<> Transfers::fill(const Allocation& to, std::byte value) {
  if (to.mapped() != nullptr) {
    std::memset(to.mapped(), static_cast<int>(value), to.bytes());
    return {};
  }
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[0];
  TESSERA_TRY(begin(slot));
  context_.api().vkCmdFillBuffer(slot.commands, to.buffer(), 0, VK_WHOLE_SIZE,
                                 std::to_integer<uint32_t>(value) * 0x01010101u);
  return finish(submit(slot));
}

}  // namespace tessera::vulkan
