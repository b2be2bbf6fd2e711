// The importance of a tensor's columns, from an importance matrix: looked up by name, checked against the tensor's
// shape, and converted for the encoders.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/imatrix.h"
#include "tessera/tensor/shape.h"

namespace tessera::convert {

/// Selects the entries of an importance matrix that are used.
struct ImatrixFilter {
  std::vector<std::string> include;  // if not empty: only names that contain one of these
  std::vector<std::string> exclude;  // excludes names that contain one of these
};

void apply(const ImatrixFilter& filter, Imatrix& imatrix);

class TensorImportance {
 public:
  /// No importance: all columns have equal weight.
  TensorImportance() = default;

  /// The importance of one tensor. An embedding of another shape is ignored. Errors: mismatch (the matrix belongs to
  /// another model).
  static Result<TensorImportance> of(const ImatrixEntry& entry, std::string_view tensor_name, const Shape& shape);

  bool empty() const { return values_.empty(); }

  /// The collected values: mean squared activations [ne0] of row i's matrix. Empty if there are none.
  std::span<const float> row(int64_t i) const { return slice(values_, i); }

  /// Weights for a search of least weighted error: their mean is 1 and each is at least 1e-2, so that no column is
  /// ignored.
  std::span<const float> weights(int64_t i) const { return slice(weights_, i); }

 private:
  std::span<const float> slice(std::span<const float> all, int64_t row) const;

  std::vector<float> values_, weights_;  // [ne0, ne2]
  int64_t n_columns_ = 0;
  int64_t n_rows_of_matrix_ = 1;
  int64_t n_matrices_ = 1;
};

}  // namespace tessera::convert
