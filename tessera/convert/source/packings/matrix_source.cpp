#include "tessera/convert/source/packings/matrix_source.h"

#include <algorithm>

namespace tessera::convert {

// Parts of a row at the beginning and at the end are tiles of their own.
void MatrixSource::read(int64_t first, std::span<std::byte> into) const {
  auto* values = reinterpret_cast<float*>(into.data());
  auto n = static_cast<int64_t>(into.size() / sizeof(float));
  while (n > 0) {
    Tile tile{.row = first / n_columns_, .n_rows = 1, .column = first % n_columns_};
    tile.n_columns = std::min(n, n_columns_ - tile.column);
    if (tile.n_columns == n_columns_) tile.n_rows = std::min(n / n_columns_, kMaxTileRows);
    decode(tile, values);
    const int64_t n_decoded = tile.n_rows * tile.n_columns;
    values += n_decoded;
    first += n_decoded;
    n -= n_decoded;
  }
}

}  // namespace tessera::convert
