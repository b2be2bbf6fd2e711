// The device's memory as a buffer type. Tensors have the layout of model files, row after row.
#pragma once

#include <limits>

#include "tessera/cuda/context.h"
#include "tessera/gpu/buffer.h"

namespace tessera::cuda {

class CudaBuffer final : public gpu::GpuBuffer {
 public:
  CudaBuffer(const BufferType& type, const Context& context, Allocation allocation, size_t size, BufferUsage usage)
      : GpuBuffer(type, size, usage), context_(context), allocation_(std::move(allocation)) {}

  uint64_t address() const override { return allocation_.address(); }
  std::byte* base() override { return nullptr; }
  Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) override;
  Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) override;
  Result<> clear(std::byte value) override { return context_.fill(address(), value, size()); }
  Result<> reset() override { return clear(std::byte{0}); }

 private:
  Result<> copy_on_device(const gpu::GpuBuffer& from, size_t from_offset, size_t to_offset, size_t bytes) override;

  const Context& context_;
  Allocation allocation_;
};

class CudaBufferType final : public BufferType {
 public:
  CudaBufferType(const Device& device, const Context& context, std::string name)
      : device_(device), context_(context), name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  const Device& device() const override { return device_; }
  size_t alignment() const override { return 256; }
  size_t max_size() const override { return std::numeric_limits<int64_t>::max(); }
  Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const override { return nbytes(dtype, shape); }
  bool is_host() const override { return false; }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const override;

 private:
  const Device& device_;
  const Context& context_;
  std::string name_;
};

}  // namespace tessera::cuda
