// Tensors of the result that are one view of a tensor of the checkpoint.
#pragma once

#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/checkpoints/tensor_rules.h"

namespace tessera::convert {

/// A view of a tensor, such as some of its rows, as a whole tensor of the result. factor: of its values.
TensorPieces one_view(StoredTensor view, double factor = 1.0);

/// The elements of a tensor in another shape. Errors: those of reshaped().
Result<TensorPieces> in_shape(const StoredTensor& tensor, std::vector<int64_t> shape);

/// n matrices that are stored below each other, as a stack [n, rows, columns]; is_transposed: [n, columns, rows].
/// Errors: mismatch (no matrix, or rows that n does not divide).
Result<TensorPieces> stack_of_rows(const StoredTensor& tensor, int64_t n, bool is_transposed);

}  // namespace tessera::convert
