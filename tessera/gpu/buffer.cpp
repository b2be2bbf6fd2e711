#include "tessera/gpu/buffer.h"

#include <algorithm>

namespace tessera::gpu {

// Copies within the device unless the two tensors overlap.
Result<> GpuBuffer::copy(const Tensor& from, const Tensor& to) {
  const bool is_same = from.dtype == to.dtype && from.shape() == to.shape() && &from.buffer->type() == &type();
  if (!is_same || !is_contiguous(from.dtype, from.layout) || !is_contiguous(to.dtype, to.layout))
    return Buffer::copy(from, to);
  TESSERA_ASSIGN(const size_t bytes, nbytes(from.dtype, from.shape()));
  TESSERA_TRY(require_range(to, 0, bytes, size() - std::min(size(), to.offset)));
  TESSERA_TRY(require_range(from, 0, bytes, from.buffer->size() - std::min(from.buffer->size(), from.offset)));
  const size_t distance = std::max(from.offset, to.offset) - std::min(from.offset, to.offset);
  if (from.buffer == this && distance < bytes) return Buffer::copy(from, to);
  return copy_on_device(static_cast<const GpuBuffer&>(*from.buffer), from.offset, to.offset, bytes);
}

}  // namespace tessera::gpu
