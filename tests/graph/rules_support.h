// What the tests of shape rules share: inputs of a type, graphs that are valid, and checks of what a rule gives or
// refuses.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tessera/graph/builder.h"
#include "tessera/graph/op_info.h"
#include "tests/support/testing.h"

namespace tessera::testing {

using Build = std::function<Value(GraphBuilder&)>;

inline Value f32(GraphBuilder& b, const Shape& shape) { return b.input("x", DType::f32, shape); }
inline Value f16(GraphBuilder& b, const Shape& shape) { return b.input("h", DType::f16, shape); }
inline Value i32(GraphBuilder& b, const Shape& shape) { return b.input("i", DType::i32, shape); }
inline Value i32(GraphBuilder& b, int64_t n) { return i32(b, Shape{n}); }

/// Every other row of a matrix of 2 t rows.
inline Value every_other_row(GraphBuilder& b, int64_t n, int64_t t) {
  return b.view(f32(b, {n, 2 * t}), {.shape = {n, t}, .nb = {4, 8 * n, 8 * n * t, 8 * n * t}}, 0);
}

/// The graph is valid, and the value that `build` returns is contiguous and has this shape and type.
inline void expect_shape(const Build& build, const Shape& shape, DType dtype = DType::f32) {
  GraphBuilder b;
  const TensorSpec spec = b.spec(build(b));
  ASSERT_OK(std::move(b).finish());
  EXPECT_EQ(spec.shape(), shape);
  EXPECT_EQ(spec.dtype, dtype);
  EXPECT_TRUE(is_contiguous(spec.dtype, spec.layout));
}

/// The graph is refused with a message that contains `why`.
inline void expect_refused(const Build& build, const char* why) {
  GraphBuilder b;
  build(b);
  EXPECT_ERROR(std::move(b).finish(), why);
}

/// The graph of a builder, which is valid.
inline Graph finished(GraphBuilder& b) {
  auto graph = std::move(b).finish();
  EXPECT_OK(graph);
  return graph ? std::move(*graph) : Graph();
}

/// An operation on x and dy, e.g. silu_grad: both are f32 and have one shape, which the result has too.
inline void expect_two_equal_shapes(Value (GraphBuilder::*op)(Value, Value)) {
  expect_shape([=](auto& b) { return (b.*op)(every_other_row(b, 8, 3), f32(b, {8, 3})); }, {8, 3});
  expect_refused([=](auto& b) { return (b.*op)(f32(b, {8, 3}), f32(b, {8})); }, "differ in shape");
  expect_refused([=](auto& b) { return (b.*op)(f16(b, {8}), f32(b, {8})); }, "x is f16");
  expect_refused([=](auto& b) { return (b.*op)(f32(b, {8}), f16(b, {8})); }, "dy is f16");
}

}  // namespace tessera::testing
