#include "tessera/vulkan/transfers.h"

#include <algorithm>
#include <cstring>

namespace tessera::vulkan {

namespace {

constexpr VkCommandBufferBeginInfo kOnce{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .pNext = nullptr,
                                         .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
                                         .pInheritanceInfo = nullptr};

}  // namespace

Transfers::~Transfers() {
  // A copy that failed to be waited for has lost its device.
  for (Slot& slot : slots_)
    if (slot.fence != VK_NULL_HANDLE) context_.api().vkDestroyFence(context_.device(), slot.fence, nullptr);
  if (pool_ != VK_NULL_HANDLE) context_.api().vkDestroyCommandPool(context_.device(), pool_, nullptr);
}

Result<> Transfers::create() {
  TESSERA_ASSIGN(pool_, context_.create_pool());
  for (Slot& slot : slots_) {
    TESSERA_ASSIGN(slot.commands, context_.create_commands(pool_));
    TESSERA_ASSIGN(slot.fence, context_.create_fence());
  }
  return {};
}

Result<> Transfers::wait_for(Slot& slot) {
  if (!slot.is_busy) return {};
  slot.is_busy = false;
  return context_.wait(slot.fence);
}

Result<> Transfers::wait_for_all() {
  Result<> outcome;
  for (Slot& slot : slots_)
    if (auto waited = wait_for(slot); !waited && outcome) outcome = std::move(waited);
  return outcome;
}

Result<> Transfers::run(Slot& slot, VkBuffer from, VkBuffer to, const VkBufferCopy& region) {
  const DeviceApi& api = context_.api();
  TESSERA_TRY(check(api.vkBeginCommandBuffer(slot.commands, &kOnce), "vkBeginCommandBuffer"));
  api.vkCmdCopyBuffer(slot.commands, from, to, 1, &region);
  const VkMemoryBarrier seen{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                             .pNext = nullptr,
                             .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                             .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_SHADER_READ_BIT};
  api.vkCmdPipelineBarrier(slot.commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                           VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &seen, 0, nullptr,
                           0, nullptr);
  TESSERA_TRY(check(api.vkEndCommandBuffer(slot.commands), "vkEndCommandBuffer"));
  TESSERA_TRY(context_.submit(slot.commands, slot.fence));
  slot.is_busy = true;
  return {};
}

Result<> Transfers::write(const Allocation& to, size_t offset, std::span<const std::byte> bytes) {
  if (to.mapped() != nullptr) {
    std::ranges::copy(bytes, to.mapped() + offset);
    return {};
  }
  const std::lock_guard lock(mutex_);
  for (size_t done = 0, i = 0; done < bytes.size(); ++i) {
    Slot& slot = slots_[i % slots_.size()];
    const size_t n = std::min(kSlotBytes, bytes.size() - done);
    TESSERA_TRY(wait_for(slot));
    if (slot.staging.bytes() == 0) {
      TESSERA_ASSIGN(slot.staging, context_.allocate(kSlotBytes, Placement::host));
    }
    std::memcpy(slot.staging.mapped(), bytes.data() + done, n);
    TESSERA_TRY(run(slot, slot.staging.buffer(), to.buffer(), {.srcOffset = 0, .dstOffset = offset + done, .size = n}));
    done += n;
  }
  return wait_for_all();
}

Result<> Transfers::read(const Allocation& from, size_t offset, std::span<std::byte> bytes) {
  if (from.mapped() != nullptr) {
    std::copy_n(from.mapped() + offset, bytes.size(), bytes.data());
    return {};
  }
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[0];
  if (slot.staging.bytes() == 0) {
    TESSERA_ASSIGN(slot.staging, context_.allocate(kSlotBytes, Placement::host));
  }
  for (size_t done = 0; done < bytes.size();) {
    const size_t n = std::min(kSlotBytes, bytes.size() - done);
    TESSERA_TRY(
        run(slot, from.buffer(), slot.staging.buffer(), {.srcOffset = offset + done, .dstOffset = 0, .size = n}));
    TESSERA_TRY(wait_for(slot));
    std::memcpy(bytes.data() + done, slot.staging.mapped(), n);
    done += n;
  }
  return {};
}

Result<> Transfers::fill(const Allocation& to, std::byte value) {
  if (to.mapped() != nullptr) {
    std::memset(to.mapped(), static_cast<int>(value), to.bytes());
    return {};
  }
  const std::lock_guard lock(mutex_);
  const DeviceApi& api = context_.api();
  Slot& slot = slots_[0];
  TESSERA_TRY(check(api.vkBeginCommandBuffer(slot.commands, &kOnce), "vkBeginCommandBuffer"));
  api.vkCmdFillBuffer(slot.commands, to.buffer(), 0, VK_WHOLE_SIZE, std::to_integer<uint32_t>(value) * 0x01010101u);
  TESSERA_TRY(check(api.vkEndCommandBuffer(slot.commands), "vkEndCommandBuffer"));
  TESSERA_TRY(context_.submit(slot.commands, slot.fence));
  slot.is_busy = true;
  return wait_for(slot);
}

}  // namespace tessera::vulkan
