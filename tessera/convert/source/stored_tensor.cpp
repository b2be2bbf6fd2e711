#include "tessera/convert/source/stored_tensor.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "tessera/base/checked.h"

namespace tessera::convert {

int64_t StoredTensor::n_elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

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

// The innermost dimensions whose elements lie one after another are copied at once.
void StoredTensor::read(std::span<const std::byte> file, int64_t first, std::span<std::byte> into) const {
  const auto width = static_cast<int64_t>(element_bytes(type));
  const auto copy = [&](int64_t element, std::span<std::byte> run) {
    if (elements != nullptr) {
      elements->read(static_cast<int64_t>(offset) / width + element, run);
    } else {
      std::memcpy(run.data(), file.data() + offset + element * width, run.size());
    }
  };
  if (strides.empty()) return copy(first, into);
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
    copy(element, into.subspan(static_cast<size_t>(at * width), static_cast<size_t>(n * width)));
    at += n;
    in_run = 0;
    for (size_t i = n_outer; i-- > 0 && ++place[i] == shape[i];) place[i] = 0;
  }
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
