#include "tessera/backend/buffer.h"

#include <vector>

namespace tessera {

Result<> require_alike(const Tensor& from, const Tensor& to) {
  if (from.dtype == to.dtype && from.shape() == to.shape()) return {};
  return fail(ErrorCode::mismatch, "copy of {} {} {} to {} {} {}", from.name, info(from.dtype).name,
              to_string(from.shape()), to.name, info(to.dtype).name, to_string(to.shape()));
}

Result<> Buffer::copy(const Tensor& from, const Tensor& to) {
  TESSERA_TRY(require_alike(from, to));
  TESSERA_ASSIGN(const size_t bytes, nbytes(from.dtype, from.shape()));
  if (from.buffer->type().is_host()) return set(to, 0, {from.buffer->base() + from.offset, bytes});
  if (type().is_host()) return from.buffer->get(from, 0, {base() + to.offset, bytes});
  std::vector<std::byte> staging(bytes);
  TESSERA_TRY(from.buffer->get(from, 0, staging));
  return set(to, 0, staging);
}

Result<> require_range(const Tensor& tensor, size_t offset, size_t n, size_t tensor_bytes) {
  if (offset > tensor_bytes || n > tensor_bytes - offset)
    return fail(ErrorCode::invalid_argument, "tensor {}: bytes {} to {} are outside its {} bytes", tensor.name, offset,
                offset + n, tensor_bytes);
  return {};
}

}  // namespace tessera
