#include "tessera/cuda/buffers.h"

#include <algorithm>

namespace tessera::cuda {

Result<> CudaBuffer::set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) {
  TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
  return context_.write(address() + tensor.offset + offset, bytes);
}

Result<> CudaBuffer::get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) {
  TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
  return context_.read(address() + tensor.offset + offset, bytes);
}

// Copies within the device unless the two tensors overlap.
Result<> CudaBuffer::copy(const Tensor& from, const Tensor& to) {
  const bool is_same = from.dtype == to.dtype && from.shape() == to.shape() && &from.buffer->type() == &type();
  if (!is_same || !is_contiguous(from.dtype, from.layout) || !is_contiguous(to.dtype, to.layout))
    return Buffer::copy(from, to);
  TESSERA_ASSIGN(const size_t bytes, nbytes(from.dtype, from.shape()));
  TESSERA_TRY(require_range(to, 0, bytes, size() - std::min(size(), to.offset)));
  TESSERA_TRY(require_range(from, 0, bytes, from.buffer->size() - std::min(from.buffer->size(), from.offset)));
  const size_t distance = std::max(from.offset, to.offset) - std::min(from.offset, to.offset);
  if (from.buffer == this && distance < bytes) return Buffer::copy(from, to);
  const auto& source = static_cast<const CudaBuffer&>(*from.buffer);
  return context_.copy(source.address() + from.offset, address() + to.offset, bytes);
}

Result<std::unique_ptr<Buffer>> CudaBufferType::allocate(size_t bytes, BufferUsage usage) const {
  TESSERA_ASSIGN(Allocation allocation, context_.allocate(bytes));
  auto buffer = std::make_unique<CudaBuffer>(*this, context_, std::move(allocation), bytes, usage);
  TESSERA_TRY(buffer->clear(std::byte{0}));
  return buffer;
}

}  // namespace tessera::cuda
