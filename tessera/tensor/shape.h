// Shapes and layouts. A shape is written innermost first, as GGUF stores it: a matrix that maps n_in values to n_out
// values is [n_in, n_out]. A layout adds a stride in bytes per dimension, so views and permutations copy nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "tessera/base/index.h"
#include "tessera/base/result.h"
#include "tessera/tensor/dtype.h"

namespace tessera {

inline constexpr int kMaxRank = 4;

/// Extents of up to four dimensions, innermost first; unused ones are 1.
struct Shape {
  std::array<int64_t, kMaxRank> ne{1, 1, 1, 1};

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) {
    int i = 0;
    for (const int64_t extent : extents)
      if (i < kMaxRank) ne[to_size(i++)] = extent;
  }

  int64_t operator[](int i) const { return ne[to_size(i)]; }
  int64_t& operator[](int i) { return ne[to_size(i)]; }
  bool operator==(const Shape&) const = default;

  /// Number of elements. For checked shapes only (nbytes() succeeded).
  int64_t n_elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
  /// Number of rows of ne[0] elements.
  int64_t n_rows() const { return ne[1] * ne[2] * ne[3]; }
  bool empty() const { return n_elements() == 0; }
};

/// "[64, 512]": trailing extents of 1 are left out.
std::string to_string(const Shape& shape);

/// Bytes of one row of n elements. Errors: n negative or not a multiple of the type's block; overflow.
Result<size_t> row_bytes(DType dtype, int64_t n);

/// Bytes of a contiguous tensor. Errors: as row_bytes(), a negative extent, more than 2^63 - 1 elements or bytes. An
/// extent of 0 counts as 1 in these limits, so no product of extents and no stride can overflow either.
Result<size_t> nbytes(DType dtype, const Shape& shape);

/// A shape and the distance in bytes between neighbours in each dimension. For blocked types nb[0] is the distance
/// between blocks. Dimension 0 is always contiguous.
struct Layout {
  Shape shape;
  std::array<int64_t, kMaxRank> nb{0, 0, 0, 0};

  bool operator==(const Layout&) const = default;
};

/// The row-major layout without gaps. Errors: as nbytes().
Result<Layout> contiguous_layout(DType dtype, const Shape& shape);

/// True if the elements are in row-major order without gaps (extents of 1 may have any stride).
bool is_contiguous(DType dtype, const Layout& layout);

/// True if the elements of each row have no gaps between them.
bool has_contiguous_rows(DType dtype, const Layout& layout);

/// Bytes from the start to the end of the memory that the layout covers.
size_t span_bytes(DType dtype, const Layout& layout);

}  // namespace tessera
