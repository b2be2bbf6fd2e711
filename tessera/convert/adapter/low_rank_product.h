// A change of a weight as a product of two small matrices, and what becomes of it when the weight's rows and columns
// get another order. A rule for the weight makes views of it. The same views of the product need only the factors in
// another order, as long as rows of the view lie in rows or in columns of the weight.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/convert/source/stored_tensor.h"

namespace tessera::convert {

/// A matrix that multiplies another one. One of its dimensions is that of the weight, and the other is the rank.
struct LowRankFactor {
  StoredTensor matrix;
  size_t dimension = 0;  // that of the weight

  int64_t n() const { return matrix.shape[dimension]; }
  int64_t rank() const { return matrix.shape[1 - dimension]; }
};

/// A weight of rows.n() rows and columns.n() columns.
struct LowRankProduct {
  LowRankFactor rows, columns;
};

/// Strides along one factor. Places start and step within its dimension.
struct FactorWalk {
  bool is_along_rows = false;
  int64_t start = 0;
  std::vector<int64_t> extents{}, steps{};

  bool operator==(const FactorWalk&) const = default;
};

/// The factors of a view of a weight, whose rows have n_view_columns elements: of its rows, and of its columns.
/// weight: the one that the view is of; its elements are numbered, and the first is at offset 0.
/// Errors: unsupported (a view that is no product of these factors).
Result<std::pair<FactorWalk, FactorWalk>> walks_of_view(const StoredTensor& view, const StoredTensor& weight,
                                                        int64_t n_view_columns);

/// The elements of a factor in the order of a walk. The rank is the first dimension, or the last one.
StoredTensor walked(const LowRankProduct& product, const FactorWalk& walk, bool is_rank_first);

}  // namespace tessera::convert
