// The shape rules and the cost of products.
#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

TEST(MulMatRule, MapsColumnsToRows) {
  expect_shape([](auto& b) { return b.mul_mat(f16(b, {8, 5}), f32(b, {8, 3})); }, {5, 3});
  expect_shape([](auto& b) { return b.mul_mat(f16(b, {8, 5}), f32(b, {8, 0})); }, {5, 0});
  expect_shape([](auto& b) { return b.mul_mat(f16(b, {8, 5}), every_other_row(b, 8, 3)); }, {5, 3});
  expect_refused([](auto& b) { return b.mul_mat(f16(b, {8, 5}), f32(b, {9, 3})); }, "weights have 8 columns");
  expect_refused([](auto& b) { return b.mul_mat(f32(b, {8, 5}), f16(b, {8, 3})); }, "x is f16");
  expect_refused([](auto& b) { return b.mul_mat(f16(b, {8, 5, 2}), f32(b, {8, 3})); }, "more than two dimensions");
  expect_refused([](auto& b) { return b.mul_mat(f16(b, {8, 5}), f32(b, {8, 3, 1, 2})); }, "more than two dimensions");
  expect_refused([](auto& b) { return b.mul_mat(f16(b, {0, 5}), f32(b, {0, 3})); }, "rows are empty");
  expect_refused(
      [](auto& b) {
        return b.mul_mat(every_other_row(b, 8, 3), f32(b, {8, 3}));
      },
      "weights are not contiguous");
}

TEST(MulMatHeadsRule, WantsAMatrixPerHead) {
  expect_shape([](auto& b) { return b.mul_mat_heads(f16(b, {8, 5, 3}), f32(b, {8, 3, 2})); }, {5, 3, 2});
  expect_shape([](auto& b) { return b.mul_mat_heads(f16(b, {8, 5, 3}), f32(b, {8, 3, 0})); }, {5, 3, 0});
  expect_refused(
      [](auto& b) {
        return b.mul_mat_heads(f16(b, {8, 5, 3}), f32(b, {8, 2, 2}));
      },
      "3 heads, x has 8 and 2");
  expect_refused([](auto& b) { return b.mul_mat_heads(f16(b, {8, 5, 3}), f32(b, {9, 3, 2})); }, "8 columns");
  expect_refused([](auto& b) { return b.mul_mat_heads(f16(b, {8, 5, 3}), f16(b, {8, 3, 2})); }, "x is f16");
  expect_refused([](auto& b) { return b.mul_mat_heads(f16(b, {0, 5, 3}), f32(b, {0, 3, 2})); }, "rows are empty");
}

TEST(Cost, CountsMultiplyAddsAndBytesOnce) {
  GraphBuilder b;
  const Value w = b.input("w", DType::f16, {8, 5});
  const Value x = f32(b, {8, 3});
  const Value y = b.mul_mat(w, x);
  const Graph graph = std::move(b).finish().value();
  EXPECT_EQ(cost(graph, y.id()).macs, 8 * 5 * 3);
  EXPECT_EQ(cost(graph, y.id()).bytes, 8 * 5 * 2 + 8 * 3 * 4 + 5 * 3 * 4);
  EXPECT_EQ(cost(graph, w.id()).bytes, 0);
}

}  // namespace
}  // namespace tessera
