#include "tessera/convert/adapter/low_rank_product.h"

#include <optional>
#include <span>

#include "tessera/base/index.h"

namespace tessera::convert {

namespace {

std::vector<int64_t> strides_of_factor(const StoredTensor& tensor) {
  return tensor.strides.empty() ? contiguous_strides(tensor.shape) : tensor.strides;
}

/// Dimensions that lie along the rows of a weight, or along its columns; nothing if all have an extent of 1.
struct WalkedDimensions {
  std::optional<bool> is_along_rows{};
  bool is_mixed = false;
  std::vector<int64_t> extents{}, steps{};
};

WalkedDimensions walked_dimensions(std::span<const int64_t> extents, std::span<const int64_t> strides,
                                   int64_t n_weight_columns) {
  WalkedDimensions result;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 1) continue;
    const bool is_along_rows = strides[i] % n_weight_columns == 0;
    result.is_mixed |= result.is_along_rows.value_or(is_along_rows) != is_along_rows;
    result.is_along_rows = is_along_rows;
    result.extents.push_back(extents[i]);
    result.steps.push_back(is_along_rows ? strides[i] / n_weight_columns : strides[i]);
  }
  return result;
}

// Whether all places are within a dimension. Others would continue in the next row of the weight.
bool is_within(const FactorWalk& walk, int64_t n) {
  int64_t last = walk.start;
  for (size_t i = 0; i < walk.extents.size(); ++i) last += (walk.extents[i] - 1) * walk.steps[i];
  return last < n;
}

}  // namespace

Result<std::pair<FactorWalk, FactorWalk>> walks_of_view(const StoredTensor& view, const StoredTensor& weight,
                                                        int64_t n_view_columns) {
  const auto refusal = [&] {
    return fail(ErrorCode::unsupported, "{}: elements of the weight are in an order that no product of two factors has",
                weight.name);
  };
  const int64_t n_rows = weight.shape[0], n_columns = weight.shape[1];
  const std::vector<int64_t> strides = strides_of_factor(view);
  const auto first = static_cast<int64_t>(view.offset / element_bytes(weight.type));
  size_t n_outer = view.shape.size();
  int64_t n = 1;
  while (n_outer > 0 && n < n_view_columns) n *= view.shape[--n_outer];
  if (n != n_view_columns) return refusal();
  const std::span<const int64_t> extents = view.shape, steps = strides;
  WalkedDimensions outer = walked_dimensions(extents.first(n_outer), steps.first(n_outer), n_columns);
  WalkedDimensions inner = walked_dimensions(extents.subspan(n_outer), steps.subspan(n_outer), n_columns);
  const bool is_outer_along_rows = outer.is_along_rows.value_or(!inner.is_along_rows.value_or(false));
  if (outer.is_mixed || inner.is_mixed || inner.is_along_rows.value_or(!is_outer_along_rows) == is_outer_along_rows)
    return refusal();
  const auto walk = [&](WalkedDimensions& dimensions, bool is_along_rows) {
    return FactorWalk{is_along_rows, is_along_rows ? first / n_columns : first % n_columns,
                      std::move(dimensions.extents), std::move(dimensions.steps)};
  };
  std::pair walks(walk(outer, is_outer_along_rows), walk(inner, !is_outer_along_rows));
  if (!is_within(walks.first, is_outer_along_rows ? n_rows : n_columns) ||
      !is_within(walks.second, is_outer_along_rows ? n_columns : n_rows))
    return refusal();
  return walks;
}

StoredTensor walked(const LowRankProduct& product, const FactorWalk& walk, bool is_rank_first) {
  const LowRankFactor& factor = walk.is_along_rows ? product.rows : product.columns;
  const std::vector<int64_t> strides = strides_of_factor(factor.matrix);
  const int64_t stride = strides[factor.dimension];
  StoredTensor result = factor.matrix;
  result.offset += static_cast<uint64_t>(walk.start * stride) * element_bytes(result.type);
  result.shape = walk.extents;
  result.strides.clear();
  for (const int64_t step : walk.steps) result.strides.push_back(step * stride);
  const std::ptrdiff_t place = is_rank_first ? 0 : std::ssize(walk.extents);
  result.shape.insert(result.shape.begin() + place, factor.rank());
  result.strides.insert(result.strides.begin() + place, strides[1 - factor.dimension]);
  if (result.strides == contiguous_strides(result.shape)) result.strides.clear();
  return result;
}

}  // namespace tessera::convert
