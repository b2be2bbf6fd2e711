// How much the columns of a tensor matter, from an importance matrix: found by name, checked against the tensor's
// shape, and put in the form that the encoders want.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/imatrix.h"
#include "tessera/tensor/shape.h"

namespace tessera::convert {

/// Which entries of an importance matrix are used.
struct ImatrixFilter {
  std::vector<std::string> include;  // if any: only names that contain one of these
  std::vector<std::string> exclude;  // no names that contain one of these
};

void apply(const ImatrixFilter& filter, Imatrix& imatrix);

class TensorImportance {
 public:
  /// None: every column matters the same.
  TensorImportance() = default;

  /// Of one tensor. An embedding that does not fit is left out. Errors: mismatch (the matrix is of another model).
  static Result<TensorImportance> of(const ImatrixEntry& entry, std::string_view tensor_name, const Shape& shape);

  bool empty() const { return values_.empty(); }

  /// As collected: mean squared activations [ne0] of row i's matrix; empty if there are none.
  std::span<const float> row(int64_t i) const { return slice(values_, i); }

  /// For a search of least weighted error: of mean 1 and nowhere below 1e-2, so that no column is given up.
  std::span<const float> weights(int64_t i) const { return slice(weights_, i); }

 private:
  std::span<const float> slice(std::span<const float> all, int64_t row) const;

  std::vector<float> values_, weights_;  // [ne0, ne2]
  int64_t n_columns_ = 0;
  int64_t n_rows_of_matrix_ = 1;
  int64_t n_matrices_ = 1;
};

}  // namespace tessera::convert
