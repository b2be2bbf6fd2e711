// The shape rules of the family rows: rows of a table, of another type, with scales of their own.
#include <limits>

#include "tessera/graph/autodiff.h"
#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

TEST(GetRowsRule, GivesFloatRows) {
  expect_shape([](auto& b) { return b.get_rows(b.input("t", DType::q8_0, {32, 9}), i32(b, 4)); }, {32, 4});
  expect_shape([](auto& b) { return b.get_rows(f32(b, {8, 9}), i32(b, 0)); }, {8, 0});
  expect_shape([](auto& b) { return b.get_rows(every_other_row(b, 8, 9), i32(b, 2)); }, {8, 2});
  expect_refused([](auto& b) { return b.get_rows(f32(b, {8, 9}), f32(b, {4})); }, "ids is f32, want i32");
  expect_refused([](auto& b) { return b.get_rows(f32(b, {8, 9, 2}), i32(b, 4)); }, "more than two dimensions");
  expect_refused([](auto& b) { return b.get_rows(f32(b, {8, 9}), b.input("i", DType::i32, {2, 2})); }, "vector");
}

TEST(GetRowsRule, OfIntegersGivesIntegers) {
  expect_shape([](auto& b) { return b.get_rows(i32(b, Shape{6, 9}), i32(b, 4)); }, {6, 4}, DType::i32);
  expect_refused([](auto& b) { return b.get_rows(i32(b, Shape{6, 9, 2}), i32(b, 4)); }, "more than two dimensions");
}

TEST(GetRows, OfIntegersHasNoGradient) {
  const Tensor table{{DType::i32, contiguous_layout(DType::i32, {6, 9}).value()}, "table"};
  const Tensor* parameters[] = {&table};
  GraphBuilder b;
  add_gradients(b, b.get_rows(b.tensor(table), i32(b, 4)), f32(b, {6, 4}), parameters, [](const Tensor&, Value) {});
  EXPECT_ERROR(std::move(b).finish(), "the table has integers");
}

TEST(CastRule, KeepsTheShape) {
  expect_shape([](auto& b) { return b.cast(f32(b, {32, 3}), DType::q8_0); }, {32, 3}, DType::q8_0);
  expect_shape([](auto& b) { return b.cast(every_other_row(b, 8, 3), DType::f16); }, {8, 3}, DType::f16);
}

TEST(Cast, RefusesATypeWhoseBlocksDoNotFit) {
  GraphBuilder b;
  b.cast(b.input("x", DType::f32, {33, 2}), DType::q8_0);
  EXPECT_ERROR(std::move(b).finish(), "cast x f32 [33, 2]: row of 33 elements: q8_0 needs");
}

TEST(ScatterRowsRule, WantsAnIdPerRow) {
  expect_shape([](auto& b) { return b.scatter_rows(every_other_row(b, 8, 3), i32(b, 3), 10); }, {8, 10});
  expect_shape([](auto& b) { return b.scatter_rows(f32(b, {8, 0}), i32(b, 0), 10); }, {8, 10});
  expect_refused([](auto& b) { return b.scatter_rows(f32(b, {8, 3}), i32(b, 4), 10); }, "ids has 4 entries, want 3");
  expect_refused([](auto& b) { return b.scatter_rows(f32(b, {8, 3}), f32(b, {3}), 10); }, "ids is f32");
  expect_refused([](auto& b) { return b.scatter_rows(f32(b, {8, 3, 2}), i32(b, 3), 10); }, "more than two dimensions");
  expect_refused([](auto& b) { return b.scatter_rows(f32(b, {8, 3}), i32(b, 3), -1); }, "-1 rows");
}

Result<Shape> scaled(const Shape& y, const Shape& d, const Shape& scales, float factor = 1.0f) {
  GraphBuilder b;
  const Value out = b.add_scaled(f32(b, y), f32(b, d), f32(b, scales), factor);
  const Shape shape = b.spec(out).shape();
  TESSERA_TRY(std::move(b).finish());
  return shape;
}

TEST(AddScaledRule, TakesAScaleForEachRow) {
  ASSERT_OK_AND_ASSIGN(const Shape shape, scaled({8, 3}, {8, 3}, {1, 3}));
  EXPECT_EQ(shape, (Shape{8, 3}));
  EXPECT_OK(scaled({8, 3}, {8}, {1, 3}));
  EXPECT_OK(scaled({8, 0}, {8, 0}, {1, 0}));
  EXPECT_ERROR(scaled({8, 3}, {8, 2}, {1, 3}), "d [8, 2], want y's shape or one of its rows");
  EXPECT_ERROR(scaled({8, 3}, {4}, {1, 3}), "d [4]");
  EXPECT_ERROR(scaled({8, 3}, {8, 3}, {3}), "scales [3], want one a row");
  EXPECT_ERROR(scaled({8, 3}, {8, 3}, {1, 2}), "2 scales for 3 rows");
  EXPECT_ERROR(scaled({8, 3, 2}, {8, 3, 2}, {1, 6}), "want a matrix");
  EXPECT_ERROR(scaled({8, 3}, {8, 3}, {1, 3}, std::numeric_limits<float>::quiet_NaN()), "factor nan");
}

TEST(AddScaledRule, WithRoutesTakesAScaleForEachToken) {
  const auto build = [](int64_t n_pairs, int64_t n_scales) -> Result<Graph> {
    GraphBuilder b;
    const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {2, 3}), 4);
    b.add_scaled(f32(b, {8, n_pairs}), f32(b, {8, n_pairs}), f32(b, {1, n_scales}), 1.0f, routes);
    return std::move(b).finish();
  };
  EXPECT_OK(build(6, 3));
  EXPECT_ERROR(build(6, 4), "4 scales for 6 pairs");
  EXPECT_ERROR(build(8, 4), "routes has 17 entries, want 21");
}

TEST(Cost, RowsThatAreMovedCountNotTheTable) {
  GraphBuilder b;
  const Value rows = b.get_rows(f32(b, {8, 1000}), i32(b, 3));
  const Graph graph = std::move(b).finish().value();
  EXPECT_EQ(cost(graph, rows.id()).bytes, 2 * 8 * 3 * 4);
}

}  // namespace
}  // namespace tessera
