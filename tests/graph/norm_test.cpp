// The shape rules of operations on each row by itself, and of sums along one dimension.
#include "tests/graph/rules_support.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

TEST(SoftMaxRule, KeepsTheShape) {
  expect_shape([](auto& b) { return b.soft_max(f32(b, {8, 0})); }, {8, 0});
  expect_refused([](auto& b) { return b.soft_max(f16(b, {8})); }, "x is f16");
}

TEST(RmsNormRule, WantsAWeightOfItsRows) {
  expect_shape([](auto& b) { return b.rms_norm(f32(b, {8, 3}), f32(b, {8}), 1e-5f); }, {8, 3});
  expect_shape([](auto& b) { return b.rms_norm(f32(b, {8, 3}), Value(), 0.0f); }, {8, 3});
  expect_refused([](auto& b) { return b.rms_norm(f32(b, {8, 3}), f32(b, {7}), 1e-5f); }, "weight [7], want [8]");
  expect_refused([](auto& b) { return b.rms_norm(f32(b, {8, 3}), f32(b, {8, 3}), 1e-5f); }, "weight [8, 3]");
  expect_refused([](auto& b) { return b.rms_norm(f32(b, {8, 3}), f16(b, {8}), 1e-5f); }, "weight is f16");
  expect_refused([](auto& b) { return b.rms_norm(f32(b, {0, 3}), Value(), 1e-5f); }, "rows are empty");
  for (const float eps : {-1e-6f, kNaN, kInf})
    expect_refused([&](auto& b) { return b.rms_norm(f32(b, {8}), Value(), eps); }, "eps");
}

TEST(LayerNormRule, WantsAWeightAndABiasOfItsRows) {
  const auto norm = [](auto& b, const Shape& x, Value weight, Value bias, float eps) {
    return b.layer_norm(f32(b, x), weight, bias, eps);
  };
  expect_shape([&](auto& b) { return norm(b, {8, 3}, f32(b, {8}), f32(b, {8}), 1e-5f); }, {8, 3});
  expect_shape([&](auto& b) { return norm(b, {8, 3}, Value(), f32(b, {8}), 0.0f); }, {8, 3});
  expect_shape([&](auto& b) { return norm(b, {8, 3}, Value(), Value(), 0.0f); }, {8, 3});
  expect_refused([&](auto& b) { return norm(b, {8, 3}, f32(b, {7}), Value(), 0.0f); }, "weight [7], want [8]");
  expect_refused([&](auto& b) { return norm(b, {8, 3}, f32(b, {8}), f32(b, {8, 3}), 0.0f); }, "bias [8, 3], want [8]");
  expect_refused([&](auto& b) { return norm(b, {8, 3}, f16(b, {8}), Value(), 0.0f); }, "weight is f16");
  expect_refused([&](auto& b) { return norm(b, {0, 3}, Value(), Value(), 0.0f); }, "rows are empty");
  for (const float eps : {-1e-6f, kNaN, kInf})
    expect_refused([&](auto& b) { return norm(b, {8}, Value(), Value(), eps); }, "eps");
}

TEST(RowRules, KeepOrSumRows) {
  expect_shape([](auto& b) { return b.l2_norm(f32(b, {4, 3}), 1e-6f); }, {4, 3});
  expect_shape([](auto& b) { return b.row_sum(f32(b, {4, 3, 2})); }, {1, 3, 2});
  expect_refused([](auto& b) { return b.l2_norm(f32(b, {4}), 0.0f); }, "eps 0, want a finite value > 0");
  expect_refused([](auto& b) { return b.l2_norm(f32(b, {4}), kNaN); }, "eps nan");
}

TEST(SumSquaresRule, KeepsTheRowsLength) {
  expect_shape([](auto& b) { return b.sum_squares(f32(b, {8, 3})); }, {8});
  expect_shape([](auto& b) { return b.sum_squares(every_other_row(b, 8, 3)); }, {8});
  expect_shape([](auto& b) { return b.sum_squares(f32(b, {8, 0})); }, {8});
  expect_shape([](auto& b) { return b.sum_squares(f32(b, {0, 3})); }, {0});
  expect_refused([](auto& b) { return b.sum_squares(f16(b, {8, 3})); }, "x is f16, want f32");
  expect_refused([](auto& b) { return b.sum_squares(Value()); }, "operand 0 is missing");
}

TEST(NormGradientRules, WantAWeightOfTheRows) {
  for (const bool is_layer_norm : {false, true}) {
    const auto norm = [=](auto& b, const Shape& x, Value weight, const Shape& dy) {
      return is_layer_norm ? b.layer_norm_grad(f32(b, x), weight, f32(b, dy), 0.0f)
                           : b.rms_norm_grad(f32(b, x), weight, f32(b, dy), 0.0f);
    };
    expect_shape([&](auto& b) { return norm(b, {8, 3}, f32(b, {8}), {8, 3}); }, {8, 3});
    expect_shape([&](auto& b) { return norm(b, {8, 3}, Value(), {8, 3}); }, {8, 3});
    expect_refused([&](auto& b) { return norm(b, {8, 3}, f32(b, {7}), {8, 3}); }, "weight [7], want [8]");
    expect_refused([&](auto& b) { return norm(b, {8, 3}, f16(b, {8}), {8, 3}); }, "weight is f16");
    expect_refused([&](auto& b) { return norm(b, {8, 3}, Value(), {8, 2}); }, "differ in shape");
    expect_refused([&](auto& b) { return norm(b, {0, 3}, Value(), {0, 3}); }, "rows are empty");
  }
  expect_refused([](auto& b) { return b.rms_norm_grad(f32(b, {8}), Value(), Value(), 0.0f); }, "dy is missing");
  expect_shape([](auto& b) { return b.l2_norm_grad(f32(b, {8, 3}), f32(b, {8, 3}), 1e-5f); }, {8, 3});
  expect_refused([](auto& b) { return b.l2_norm_grad(f32(b, {8, 3}), f32(b, {8}), 1e-5f); }, "differ in shape");
}

TEST(NormGradientRules, SoftMaxWantsTwoEqualShapes) { expect_two_equal_shapes(&GraphBuilder::soft_max_grad); }

TEST(Cost, SumSquaresReadsItsOperandOnce) {
  GraphBuilder b;
  const Value y = b.sum_squares(f32(b, {8, 3}));
  const Graph graph = std::move(b).finish().value();
  EXPECT_EQ(cost(graph, y.id()).macs, 8 * 3);
  EXPECT_EQ(cost(graph, y.id()).bytes, 8 * 3 * 4 + 8 * 4);
}

}  // namespace
}  // namespace tessera
