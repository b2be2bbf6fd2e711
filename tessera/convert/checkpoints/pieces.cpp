#include "tessera/convert/checkpoints/pieces.h"

#include <utility>

#include "tessera/convert/source/views.h"

namespace tessera::convert {

TensorPieces one_view(StoredTensor view, double factor) {
  TensorPieces pieces{.shape = view.shape, .factors = {static_cast<float>(factor)}};
  pieces.views.push_back(std::move(view));
  return pieces;
}

Result<TensorPieces> in_shape(const StoredTensor& tensor, std::vector<int64_t> shape) {
  TESSERA_ASSIGN(StoredTensor view, reshaped(tensor, shape));
  return one_view(std::move(view));
}

Result<TensorPieces> stack_of_rows(const StoredTensor& tensor, int64_t n, bool is_transposed) {
  if (tensor.shape.size() != 2 || n < 1 || tensor.shape[0] % n != 0)
    return fail(ErrorCode::mismatch, "{}: want a matrix with the rows of {} experts", tensor.name, n);
  TESSERA_ASSIGN(StoredTensor view, reshaped(tensor, {n, tensor.shape[0] / n, tensor.shape[1]}));
  if (is_transposed) {
    constexpr size_t kOrder[] = {0, 2, 1};
    TESSERA_ASSIGN(view, with_order(view, kOrder));
  }
  return one_view(std::move(view));
}

}  // namespace tessera::convert
