#include "tessera/cuda/buffers.h"

namespace tessera::cuda {

Result<> CudaBuffer::set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) {
  TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
  return context_.write(address() + tensor.offset + offset, bytes);
}

Result<> CudaBuffer::get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) {
  TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
  return context_.read(address() + tensor.offset + offset, bytes);
}

Result<> CudaBuffer::copy_on_device(const gpu::GpuBuffer& from, size_t from_offset, size_t to_offset, size_t bytes) {
  return context_.copy(from.address() + from_offset, address() + to_offset, bytes);
}

Result<std::unique_ptr<Buffer>> CudaBufferType::allocate(size_t bytes, BufferUsage usage) const {
  TESSERA_ASSIGN(Allocation allocation, context_.allocate(bytes));
  auto buffer = std::make_unique<CudaBuffer>(*this, context_, std::move(allocation), bytes, usage);
  TESSERA_TRY(buffer->clear(std::byte{0}));
  return buffer;
}

}  // namespace tessera::cuda
