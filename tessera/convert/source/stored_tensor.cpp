#include "tessera/convert/source/stored_tensor.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/convert/source/mapped_pages.h"

namespace tessera::convert {

namespace {

constexpr int64_t kTileColumns = 32;

struct TileExtents {
  int64_t n_rows, n_columns;
};

// From a tile whose columns lie one after another to rows of which each begins n_row elements after the one before.
template <class Number>
void turn_numbers(const TileExtents& extents, const std::byte* tile, int64_t n_row, std::byte* rows) {
  for (int64_t i = 0; i < extents.n_rows; ++i)
    for (int64_t j = 0; j < extents.n_columns; ++j)
      std::memcpy(rows + to_size(i * n_row + j) * sizeof(Number),
                  tile + to_size(j * extents.n_rows + i) * sizeof(Number), sizeof(Number));
}

void turn_tile(size_t width, const TileExtents& extents, const std::byte* tile, int64_t n_row, std::byte* rows) {
  if (width == sizeof(uint8_t)) turn_numbers<uint8_t>(extents, tile, n_row, rows);
  if (width == sizeof(uint16_t)) turn_numbers<uint16_t>(extents, tile, n_row, rows);
  if (width == sizeof(uint32_t)) turn_numbers<uint32_t>(extents, tile, n_row, rows);
  if (width == sizeof(uint64_t)) turn_numbers<uint64_t>(extents, tile, n_row, rows);
}

// Elements of 1, 2, 4 or 8 bytes. Blocks keep their order within rows.
bool is_number(ElementType type) { return element_values(type) == 1; }

int64_t product_of(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// The element of number i in the order of the extents, counted from the first one.
int64_t place_of(std::span<const int64_t> extents, std::span<const int64_t> strides, int64_t i) {
  int64_t place = 0;
  for (size_t d = extents.size(); d-- > 0; i /= extents[d]) place += i % extents[d] * strides[d];
  return place;
}

}  // namespace

int64_t StoredTensor::n_elements() const { return product_of(shape); }

// An extent of 0 makes the product 0, but the other extents must fit all the same: later code multiplies in any order.
Result<int64_t> count_elements(std::span<const int64_t> shape) {
  if (shape.size() > kMaxStoredRank)
    return fail(ErrorCode::limit, "{} dimensions, limit {}", shape.size(), kMaxStoredRank);
  int64_t product = 1;
  for (const int64_t extent : shape) {
    if (extent < 0) return fail(ErrorCode::format, "a dimension of {}", extent);
    const auto next = checked_mul(product, std::max<int64_t>(extent, 1));
    if (!next) return fail(ErrorCode::format, "more than 2^63 elements");
    product = *next;
  }
  return std::ranges::find(shape, 0) != shape.end() ? 0 : product;
}

// Elements one after another in the file, or computed.
void StoredTensor::copy(std::span<const std::byte> file, int64_t element, std::span<std::byte> into) const {
  const auto width = static_cast<int64_t>(element_bytes(type));
  if (elements != nullptr) return elements->read(static_cast<int64_t>(offset) / width + element, into);
  std::memcpy(into.data(), file.data() + offset + element * width, into.size());
}

void StoredTensor::read(std::span<const std::byte> file, int64_t first, std::span<std::byte> into) const {
  if (strides.empty()) return copy(file, first, into);
  if (const auto dimension = column_dimension()) return read_columns(file, *dimension, first, into);
  read_runs(file, first, into);
}

// The innermost dimensions whose elements lie one after another are copied at once.
void StoredTensor::read_runs(std::span<const std::byte> file, int64_t first, std::span<std::byte> into) const {
  const auto width = static_cast<int64_t>(element_bytes(type));
  size_t n_outer = shape.size();
  int64_t n_run = 1;
  for (; n_outer > 0 && (strides[n_outer - 1] == n_run || shape[n_outer - 1] == 1); --n_outer)
    n_run *= shape[n_outer - 1];
  std::vector<int64_t> place(n_outer);
  int64_t rest = first / n_run, in_run = first % n_run;
  for (size_t i = n_outer; i-- > 0; rest /= shape[i]) place[i] = rest % shape[i];
  const auto n_elements = static_cast<int64_t>(into.size()) / width;
  for (int64_t at = 0; at < n_elements;) {
    int64_t element = in_run;
    for (size_t i = 0; i < n_outer; ++i) element += place[i] * strides[i];
    const int64_t n = std::min(n_run - in_run, n_elements - at);
    copy(file, element, into.subspan(static_cast<size_t>(at * width), static_cast<size_t>(n * width)));
    at += n;
    in_run = 0;
    for (size_t i = n_outer; i-- > 0 && ++place[i] == shape[i];) place[i] = 0;
  }
}

// The dimension of a stride of 1, unless it is the innermost of those with several indexes.
std::optional<size_t> StoredTensor::column_dimension() const {
  size_t end = strides.size();
  while (end > 0 && shape[end - 1] == 1) --end;
  if (end == 0 || strides[end - 1] == 1) return std::nullopt;
  for (size_t i = 0; i + 1 < end; ++i)
    if (strides[i] == 1 && shape[i] > 1 && is_number(type)) return i;
  return std::nullopt;
}

// Whole rows are read tile by tile, so that each part of the file that a processor loads is used at once.
void StoredTensor::read_columns(std::span<const std::byte> file, size_t dimension, int64_t first,
                                std::span<std::byte> into) const {
  const size_t width = element_bytes(type);
  const auto outer = std::span(shape).first(dimension), inner = std::span(shape).subspan(dimension + 1);
  const auto inner_strides = std::span(strides).subspan(dimension + 1);
  const int64_t n_row = product_of(inner), n_rows_together = shape[dimension];
  std::vector<std::byte> tile(to_size(kColumnRows * kTileColumns) * width);
  while (!into.empty()) {
    const auto n_left = static_cast<int64_t>(into.size() / width);
    const int64_t row = first / n_row, in_row = first % n_row, in_dimension = row % n_rows_together;
    int64_t n = std::min(n_left, n_row - in_row);  // of a part of a row
    if (in_row != 0 || n_left < n_row) {
      read_runs(file, first, into.first(to_size(n) * width));
    } else {
      const int64_t n_rows = std::min({n_left / n_row, n_rows_together - in_dimension, kColumnRows});
      const int64_t base = place_of(outer, strides, row / n_rows_together) + in_dimension;
      for (int64_t begin = 0; begin < n_row; begin += kTileColumns) {
        const int64_t n_columns = std::min(kTileColumns, n_row - begin);
        const size_t n_column_bytes = to_size(n_rows) * width;
        for (int64_t i = 0; i < n_columns; ++i)
          copy(file, base + place_of(inner, inner_strides, begin + i),
               std::span(tile).subspan(to_size(i) * n_column_bytes, n_column_bytes));
        turn_tile(width, {n_rows, n_columns}, tile.data(), n_row, into.data() + to_size(begin) * width);
      }
      n = n_rows * n_row;
    }
    first += n;
    into = into.subspan(to_size(n) * width);
  }
}

void StoredTensor::forget(const MappedFile& file, int64_t first, int64_t n) const {
  const auto width = static_cast<int64_t>(element_bytes(type));
  const ElementRange range = finished_by(first, n);
  if (range.n == 0) return;
  if (elements != nullptr) return elements->forget(static_cast<int64_t>(offset) / width + range.first, range.n);
  forget_bytes(file, offset + static_cast<uint64_t>(range.first * width), static_cast<uint64_t>(range.n * width));
}

// The range that later elements do not need. Where each index of the outermost dimension has a range of its own, such
// as the matrix of an expert, these are the ranges of the indexes that end here. Bytes between them do not matter.
StoredTensor::ElementRange StoredTensor::finished_by(int64_t first, int64_t n) const {
  if (strides.empty() || n == 0) return {first, n};
  size_t outer = 0;
  while (outer + 1 < shape.size() && shape[outer] == 1) ++outer;
  int64_t n_inner = 1, inner_range = 1;
  for (size_t i = outer + 1; i < shape.size(); ++i) {
    n_inner *= shape[i];
    inner_range += (shape[i] - 1) * strides[i];
  }
  const int64_t end = first + n;
  if (strides[outer] >= inner_range) {
    const int64_t begin_index = first / n_inner, end_index = end / n_inner;
    if (begin_index == end_index) return {};
    return {begin_index * strides[outer], (end_index - begin_index - 1) * strides[outer] + inner_range};
  }
  if (end < shape[outer] * n_inner) return {};
  return {0, (shape[outer] - 1) * strides[outer] + inner_range};
}

std::vector<int64_t> contiguous_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

}  // namespace tessera::convert
