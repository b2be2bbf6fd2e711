#include "tessera/vulkan/buffers.h"

namespace tessera::vulkan {

Result<> VulkanBuffer::set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) {
  TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
  return transfers_.write(allocation_, tensor.offset + offset, bytes);
}

Result<> VulkanBuffer::get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) {
  TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
  return transfers_.read(allocation_, tensor.offset + offset, bytes);
}

Result<> VulkanBuffer::copy_on_device(const gpu::GpuBuffer& from, size_t from_offset, size_t to_offset, size_t bytes) {
  return transfers_.copy(static_cast<const VulkanBuffer&>(from).allocation_, from_offset, allocation_, to_offset,
                         bytes);
}

Result<std::unique_ptr<Buffer>> VulkanBufferType::allocate(size_t bytes, BufferUsage usage) const {
  TESSERA_ASSIGN(Allocation allocation, context_.allocate(bytes, MemoryKind::device));
  auto buffer = std::make_unique<VulkanBuffer>(*this, transfers_, std::move(allocation), bytes, usage);
  TESSERA_TRY(buffer->clear(std::byte{0}));
  return buffer;
}

}  // namespace tessera::vulkan
