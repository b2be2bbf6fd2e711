#include "tessera/tensor/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera {

std::string to_string(const Shape& shape) {
  int rank = kMaxRank;
  while (rank > 1 && shape[rank - 1] == 1) --rank;
  std::string text = "[";
  for (int i = 0; i < rank; ++i) fmt::format_to(std::back_inserter(text), "{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

Result<size_t> row_bytes(DType dtype, int64_t n) {
  const DTypeInfo& row = info(dtype);
  if (n < 0) return fail(ErrorCode::invalid_argument, "row of {} elements: want at least 0", n);
  if (n % row.block_elements != 0)
    return fail(ErrorCode::invalid_argument, "row of {} elements: {} needs a multiple of {}", n, row.name,
                row.block_elements);
  const auto bytes = checked_mul<int64_t>(n / row.block_elements, row.block_bytes);
  if (!bytes) return fail(ErrorCode::limit, "row of {} elements of {}: size overflows", n, row.name);
  return to_size(*bytes);
}

Result<size_t> nbytes(DType dtype, const Shape& shape) {
  TESSERA_ASSIGN(const size_t row, row_bytes(dtype, shape[0]));
  // An extent of 0 counts as 1 here. Strides and row counts are products of some of the extents, so a 0 must not hide
  // the overflow of another product.
  int64_t elements = std::max<int64_t>(shape[0], 1);
  int64_t bytes = std::max(static_cast<int64_t>(row), info(dtype).block_bytes);
  for (int i = 1; i < kMaxRank; ++i) {
    if (shape[i] < 0)
      return fail(ErrorCode::invalid_argument, "extent {} of dimension {}: want at least 0", shape[i], i);
    const auto more_elements = checked_mul(elements, std::max<int64_t>(shape[i], 1));
    const auto more_bytes = checked_mul(bytes, std::max<int64_t>(shape[i], 1));
    if (!more_elements || !more_bytes)
      return fail(ErrorCode::limit, "shape {}: more than 2^63 elements or bytes", to_string(shape));
    elements = *more_elements;
    bytes = *more_bytes;
  }
  return shape.empty() ? 0 : to_size(bytes);
}

Result<Layout> contiguous_layout(DType dtype, const Shape& shape) {
  TESSERA_TRY(nbytes(dtype, shape));
  Layout layout{.shape = shape, .nb = {}};
  const DTypeInfo& row = info(dtype);
  layout.nb[0] = row.block_bytes;
  layout.nb[1] = shape[0] / row.block_elements * row.block_bytes;
  for (size_t i = 2; i < kMaxRank; ++i) layout.nb[i] = layout.nb[i - 1] * shape.ne[i - 1];
  return layout;
}

bool has_contiguous_rows(DType dtype, const Layout& layout) {
  return layout.shape[0] <= 1 || layout.nb[0] == info(dtype).block_bytes;
}

bool is_contiguous(DType dtype, const Layout& layout) {
  if (!has_contiguous_rows(dtype, layout)) return false;
  const DTypeInfo& row = info(dtype);
  int64_t expected = layout.shape[0] / row.block_elements * row.block_bytes;
  for (int i = 1; i < kMaxRank; ++i) {
    if (layout.shape[i] != 1 && layout.nb[to_size(i)] != expected) return false;
    expected *= layout.shape[i];
  }
  return true;
}

size_t span_bytes(DType dtype, const Layout& layout) {
  if (layout.shape.empty()) return 0;
  const DTypeInfo& row = info(dtype);
  int64_t last = (layout.shape[0] / row.block_elements - 1) * layout.nb[0] + row.block_bytes;
  for (int i = 1; i < kMaxRank; ++i) last += (layout.shape[i] - 1) * layout.nb[to_size(i)];
  return to_size(last);
}

}  // namespace tessera
