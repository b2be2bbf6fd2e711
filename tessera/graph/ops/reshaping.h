// Elements moved, repeated or summed into another shape: what gradients of views and repeated operands are.
#pragma once

#include "tessera/tensor/shape.h"

namespace tessera {

/// sum_to, repeat: the result's shape, whose extents are those of the operand, or 1 on one side.
struct ShapeParams {
  Shape shape;
};

/// place: where the operand's elements stand in a contiguous f32 value of zeros.
struct PlaceParams {
  Shape shape;        // of the result
  Layout at;          // of the operand's elements in it, in bytes; no two in one place
  size_t offset = 0;  // of the first, in bytes
};

struct ScatterRowsParams {
  int64_t n_rows = 0;  // of the result
};

}  // namespace tessera
