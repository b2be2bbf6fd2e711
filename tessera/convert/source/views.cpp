#include "tessera/convert/source/views.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tessera::convert {

namespace {

std::vector<int64_t> strides_of(const StoredTensor& tensor) {
  return tensor.strides.empty() ? contiguous_strides(tensor.shape) : tensor.strides;
}

// A tensor whose strides may be those of elements one after another, which are left out.
StoredTensor with_strides(StoredTensor tensor, std::vector<int64_t> strides) {
  tensor.strides = strides == contiguous_strides(tensor.shape) ? std::vector<int64_t>() : std::move(strides);
  return tensor;
}

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

// Extents are taken apart or together within runs of dimensions whose elements lie one after another.
Result<StoredTensor> reshaped(const StoredTensor& tensor, std::vector<int64_t> shape) {
  TESSERA_ASSIGN(const int64_t n_elements, count_elements(shape));
  const auto refusal = [&] {
    return fail(ErrorCode::mismatch, "{} of shape {} has no shape {}", tensor.name, shape_text(tensor.shape),
                shape_text(shape));
  };
  if (n_elements != tensor.n_elements()) return refusal();
  StoredTensor result = tensor;
  result.shape = shape;
  if (tensor.strides.empty() || n_elements == 0) {
    result.strides.clear();
    return result;
  }
  std::vector<int64_t> old_shape, old_strides, strides(shape.size(), 1);
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 1) continue;
    old_shape.push_back(tensor.shape[i]);
    old_strides.push_back(tensor.strides[i]);
  }
  size_t from = 0, to = 0;
  while (from < old_shape.size()) {
    // The shortest groups of old and new extents with the same product.
    size_t from_end = from + 1, to_end = to;
    int64_t old_product = old_shape[from], new_product = 1;
    while (old_product != new_product) {
      if (new_product < old_product) {
        if (to_end == shape.size()) return refusal();
        new_product *= shape[to_end++];
      } else {
        if (from_end == old_shape.size()) return refusal();
        old_product *= old_shape[from_end++];
      }
    }
    for (size_t i = from; i + 1 < from_end; ++i)
      if (old_strides[i] != old_strides[i + 1] * old_shape[i + 1]) return refusal();
    int64_t stride = old_strides[from_end - 1];
    for (size_t i = to_end; i-- > to;) {
      strides[i] = stride;
      stride *= shape[i];
    }
    from = from_end;
    to = to_end;
  }
  return with_strides(std::move(result), std::move(strides));
}

Result<StoredTensor> with_order(const StoredTensor& tensor, std::span<const size_t> order) {
  const std::vector<int64_t> old_strides = strides_of(tensor);
  std::vector<bool> is_used(tensor.shape.size());
  StoredTensor result = tensor;
  std::vector<int64_t> strides;
  result.shape.clear();
  for (const size_t i : order) {
    if (i >= is_used.size() || is_used[i]) break;
    is_used[i] = true;
    result.shape.push_back(tensor.shape[i]);
    strides.push_back(old_strides[i]);
  }
  if (result.shape.size() != tensor.shape.size() || order.size() != tensor.shape.size())
    return fail(ErrorCode::mismatch, "{} of shape {} has no order {}", tensor.name, shape_text(tensor.shape),
                fmt::join(order, ", "));
  return with_strides(std::move(result), std::move(strides));
}

Result<StoredTensor> transposed(const StoredTensor& matrix) {
  if (matrix.shape.size() != 2)
    return fail(ErrorCode::mismatch, "{} of shape {} is no matrix", matrix.name, shape_text(matrix.shape));
  constexpr size_t kOrder[] = {1, 0};
  return with_order(matrix, kOrder);
}

Result<StoredTensor> part_of(const StoredTensor& tensor, size_t dimension, int64_t begin, int64_t n) {
  if (dimension >= tensor.shape.size() || begin < 0 || n < 0 || n > tensor.shape[dimension] ||
      begin > tensor.shape[dimension] - n)
    return fail(ErrorCode::mismatch, "{} of shape {} has no part of {} from {} on in dimension {}", tensor.name,
                shape_text(tensor.shape), n, begin, dimension);
  std::vector<int64_t> strides = strides_of(tensor);
  StoredTensor result = tensor;
  result.shape[dimension] = n;
  result.offset += static_cast<uint64_t>(begin * strides[dimension]) * element_bytes(tensor.type);
  return with_strides(std::move(result), std::move(strides));
}

StoredTensor squeezed(const StoredTensor& tensor) {
  const std::vector<int64_t> old_strides = strides_of(tensor);
  StoredTensor result = tensor;
  std::vector<int64_t> strides;
  result.shape.clear();
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 1) continue;
    result.shape.push_back(tensor.shape[i]);
    strides.push_back(old_strides[i]);
  }
  return with_strides(std::move(result), std::move(strides));
}

Result<StoredTensor> rope_pairs_together(const StoredTensor& tensor, int64_t n_heads) {
  if (tensor.shape.empty() || n_heads <= 0 || tensor.shape[0] % n_heads != 0 || tensor.shape[0] / n_heads % 2 != 0)
    return fail(ErrorCode::mismatch, "{} of shape {}: no whole pairs of rows for {} heads", tensor.name,
                shape_text(tensor.shape), n_heads);
  std::vector<int64_t> shape = {n_heads, 2, tensor.shape[0] / n_heads / 2};
  std::vector<size_t> order = {0, 2, 1};
  for (size_t i = 1; i < tensor.shape.size(); ++i) {
    shape.push_back(tensor.shape[i]);
    order.push_back(i + 2);
  }
  TESSERA_ASSIGN(const StoredTensor apart, reshaped(tensor, std::move(shape)));
  return with_order(apart, order);
}

}  // namespace tessera::convert
