// Matrices of floats that are computed tile by tile.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/convert/source/stored_tensor.h"

namespace tessera::convert {

/// Rows [row, row + n_rows) of columns [column, column + n_columns).
struct Tile {
  int64_t row = 0, n_rows = 0, column = 0, n_columns = 0;
};

class MatrixSource : public ElementSource {
 public:
  void read(int64_t first, std::span<std::byte> into) const final;

 protected:
  /// The most rows of a tile.
  static constexpr int64_t kMaxTileRows = 16;

  explicit MatrixSource(int64_t n_columns) : n_columns_(n_columns) {}
  int64_t n_columns() const { return n_columns_; }

 private:
  /// Writes the values of a tile, row by row. Packed matrices are often stored by columns, so a tile of several rows
  /// costs less than its rows one by one.
  virtual void decode(const Tile& tile, float* values) const = 0;

  int64_t n_columns_;
};

}  // namespace tessera::convert
