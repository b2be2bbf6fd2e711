// Operations that reshape, move, repeat or sum elements.
#pragma once

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

/// sum_to, repeat: the shape of the result. In each dimension the extents are equal, or one of the two is 1.
struct ShapeParams {
  Shape shape;
  void list(ParamList& params) const;
};

/// place: the layout of the operand's elements in a contiguous f32 value of zeros.
struct PlaceParams {
  Shape shape;        // of the result
  Layout at;          // of the operand's elements in it, in bytes; no two at one address
  size_t offset = 0;  // of the first element, in bytes
  void list(ParamList& params) const;
};

/// The part of GraphBuilder that changes shapes.
class ShapeOps {
 public:
  /// The same bytes with another shape of as many elements. Errors: x is not contiguous; the numbers of elements
  /// differ.
  Value reshape(Value x, const Shape& shape);
  /// The elements of x from `offset` bytes on, with strides nb in bytes. Errors: the view extends beyond x or splits
  /// its elements.
  Value view(Value x, const Layout& layout, size_t offset);
  /// Rows of a, each followed by the row of b. All extents but the innermost must be equal.
  Value concat(Value a, Value b);
  /// The first two dimensions of x (any dtype) exchanged, as f32: [n, k, ...].
  Value transpose(Value x);
  /// sum_to: x summed along the dimensions in which `shape` has 1, in ascending order. repeat: x repeated along the
  /// dimensions in which x has 1.
  Value sum_to(Value x, const Shape& shape);
  Value repeat(Value x, const Shape& shape);
  /// Zeros of params.shape with x's elements at params.at. This is the inverse of view().
  Value place(Value x, const PlaceParams& params);
};

}  // namespace tessera
