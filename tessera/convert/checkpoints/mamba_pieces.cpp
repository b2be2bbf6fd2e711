#include "tessera/convert/checkpoints/mamba_pieces.h"

#include "tessera/convert/checkpoints/pieces.h"

namespace tessera::convert {

Result<TensorPieces> as_column(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  return in_shape(tensor, {tensor.n_elements(), 1});
}

Result<TensorPieces> without_middle(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  if (tensor.shape.size() != 3 || tensor.shape[1] != 1)
    return fail(ErrorCode::mismatch, "{}: {} dimensions, want three with 1 in the middle", tensor.name,
                tensor.shape.size());
  return in_shape(tensor, {tensor.shape[0], tensor.shape[2]});
}

Result<TensorPieces> in_groups(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const auto stated, facts.config->integer({"mamba_n_groups", "n_groups"}, 1, INT32_MAX));
  const int64_t n_groups = stated.value_or(1), n = tensor.n_elements();
  if (n % n_groups != 0)
    return fail(ErrorCode::mismatch, "{}: {} values, want {} groups of one size", tensor.name, n, n_groups);
  return in_shape(tensor, {n_groups, n / n_groups});
}

}  // namespace tessera::convert
