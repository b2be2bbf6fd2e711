// Elements under another shape, moved, repeated or summed.
#pragma once

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

/// sum_to, repeat: the result's shape. Each extent is the operand's, or 1 on one side.
struct ShapeParams {
  Shape shape;
  void list(ParamList& params) const;
};

/// place: where the operand's elements lie in a contiguous f32 value of zeros.
struct PlaceParams {
  Shape shape;        // of the result
  Layout at;          // of the operand's elements in it, in bytes; no two in one place
  size_t offset = 0;  // of the first, in bytes
  void list(ParamList& params) const;
};

/// The part of GraphBuilder that changes shapes.
class ShapeOps {
 public:
  /// The same bytes with a new shape of as many elements. Errors: x is not contiguous; counts differ.
  Value reshape(Value x, const Shape& shape);
  /// The elements of x from `offset` bytes on, with strides nb in bytes. Errors: the view reaches outside x or splits
  /// its elements.
  Value view(Value x, const Layout& layout, size_t offset);
  /// Rows of a, each followed by b's row; all extents but the innermost are equal.
  Value concat(Value a, Value b);
  /// The first two dimensions of x (any dtype) exchanged, as f32: [n, k, ...].
  Value transpose(Value x);
  /// x summed along the dimensions in which `shape` has 1, in ascending order; x repeated along those in which x has 1.
  Value sum_to(Value x, const Shape& shape);
  Value repeat(Value x, const Shape& shape);
  /// Zeros of params.shape with x's elements at params.at: the inverse of view().
  Value place(Value x, const PlaceParams& params);
};

}  // namespace tessera
