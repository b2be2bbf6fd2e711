// Other shapes of a stored tensor. A view has the bytes of its tensor in another order, by strides, so that nothing is
// copied until elements are read: transposed matrices, rows in another order, parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/convert/source/stored_tensor.h"

namespace tessera::convert {

/// The same elements in the same order with other extents. Errors: mismatch (another number of elements; extents that
/// no strides can give, since the tensor is itself a view).
Result<StoredTensor> reshaped(const StoredTensor& tensor, std::vector<int64_t> shape);

/// Dimension i of the result is dimension order[i] of the tensor. Errors: mismatch (not each dimension once).
Result<StoredTensor> with_order(const StoredTensor& tensor, std::span<const size_t> order);
/// A matrix with rows and columns exchanged. Errors: mismatch (no matrix).
Result<StoredTensor> transposed(const StoredTensor& matrix);

/// Indices [begin, begin + n) of a dimension. Errors: mismatch (outside of the tensor).
Result<StoredTensor> part_of(const StoredTensor& tensor, size_t dimension, int64_t begin, int64_t n);

/// The tensor without extents of 1.
StoredTensor squeezed(const StoredTensor& tensor);

/// The rows of the matrices for q and k, or of their biases, from the order of the hub to that of GGUF: in each head,
/// the first elements of all pairs and then the second ones become pair after pair.
/// Errors: mismatch (rows that are no whole pairs of each head).
Result<StoredTensor> rope_pairs_together(const StoredTensor& tensor, int64_t n_heads);

}  // namespace tessera::convert
