// The device's memory as a buffer type. Tensors have the layout of model files, row after row.
#pragma once

#include "tessera/gpu/buffer.h"
#include "tessera/vulkan/transfers.h"

namespace tessera::vulkan {

class VulkanBuffer final : public gpu::GpuBuffer {
 public:
  VulkanBuffer(const BufferType& type, Transfers& transfers, Allocation allocation, size_t size, BufferUsage usage)
      : GpuBuffer(type, size, usage), transfers_(transfers), allocation_(std::move(allocation)) {}

  uint64_t address() const override { return allocation_.address(); }
  VkBuffer handle() const { return allocation_.buffer(); }

  std::byte* base() override { return allocation_.mapped(); }
  Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) override;
  Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) override;
  Result<> clear(std::byte value) override { return transfers_.fill(allocation_, value); }
  Result<> reset() override { return clear(std::byte{0}); }

 private:
  Result<> copy_on_device(const gpu::GpuBuffer& from, size_t from_offset, size_t to_offset, size_t bytes) override;

  Transfers& transfers_;
  Allocation allocation_;
};

class VulkanBufferType final : public BufferType {
 public:
  VulkanBufferType(const Device& device, const Context& context, Transfers& transfers, std::string name)
      : device_(device), context_(context), transfers_(transfers), name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  const Device& device() const override { return device_; }
  size_t alignment() const override { return 64; }
  size_t max_size() const override { return context_.max_allocation(); }
  Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const override { return nbytes(dtype, shape); }
  bool is_host() const override { return false; }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const override;

 private:
  const Device& device_;
  const Context& context_;
  Transfers& transfers_;
  std::string name_;
};

}  // namespace tessera::vulkan
