// The shape rules of operations on each element by itself.
#include "tests/graph/rules_support.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

TEST(BinaryRules, AddRepeatsAlongAllButTheInnermostDimension) {
  expect_shape([](auto& b) { return b.add(f32(b, {8, 3}), f32(b, {8, 3})); }, {8, 3});
  expect_shape([](auto& b) { return b.add(f32(b, {8, 3, 2}), f32(b, {8, 1, 2})); }, {8, 3, 2});
  expect_shape([](auto& b) { return b.add(f32(b, {8, 0}), f32(b, {8})); }, {8, 0});
  expect_shape([](auto& b) { return b.add(every_other_row(b, 8, 3), f32(b, {8})); }, {8, 3});
  expect_refused([](auto& b) { return b.add(f32(b, {8, 3}), f32(b, {1})); }, "dimension 0: 8 and 1");
  expect_refused([](auto& b) { return b.add(f32(b, {8, 1}), f32(b, {8, 3})); }, "dimension 1: 1 and 3");
  expect_refused([](auto& b) { return b.add(f16(b, {8}), f32(b, {8})); }, "x is f16, want f32");
  expect_refused([](auto& b) { return b.add(f32(b, {8}), f16(b, {8})); }, "the second operand is f16");
}

TEST(BinaryRules, MulRepeatsAlongAnyDimension) {
  expect_shape([](auto& b) { return b.mul(f32(b, {8, 3}), f32(b, {1, 3})); }, {8, 3});
  expect_shape([](auto& b) { return b.mul(f32(b, {8, 3}), f32(b, {1})); }, {8, 3});
  expect_refused([](auto& b) { return b.mul(f32(b, {8, 3}), f32(b, {2, 3})); }, "dimension 0: 8 and 2");
  expect_refused([](auto& b) { return b.mul(f32(b, {8, 3}), Value()); }, "operand 1 is missing");
}

TEST(BinaryRules, DivRepeatsAlongAllButTheInnermostDimension) {
  expect_shape([](auto& b) { return b.div(f32(b, {8, 3}), f32(b, {8})); }, {8, 3});
  expect_refused([](auto& b) { return b.div(f32(b, {8, 3}), f32(b, {1})); }, "dimension 0: 8 and 1");
}

TEST(UnaryRules, KeepTheShape) {
  expect_shape([](auto& b) { return b.silu(f32(b, {8, 3, 2, 2})); }, {8, 3, 2, 2});
  expect_shape([](auto& b) { return b.scale(every_other_row(b, 8, 3), 2.0f); }, {8, 3});
  expect_refused([](auto& b) { return b.silu(f16(b, {8})); }, "x is f16");
  expect_refused([](auto& b) { return b.scale(i32(b, 8), 2.0f); }, "x is i32");
}

TEST(UnaryRules, OfSingleArchitectures) {
  expect_shape([](auto& b) { return b.gelu(every_other_row(b, 8, 3)); }, {8, 3});
  expect_shape([](auto& b) { return b.sigmoid(f32(b, {8, 3})); }, {8, 3});
  expect_shape([](auto& b) { return b.relu_squared(f32(b, {8, 0})); }, {8, 0});
  expect_shape([](auto& b) { return b.sqrt(f32(b, {8, 3})); }, {8, 3});
  expect_shape([](auto& b) { return b.soft_cap(f32(b, {8, 3}), 30.0f); }, {8, 3});
  expect_shape([](auto& b) { return b.clamp(f32(b, {8, 3}), -kInf, 1.0f); }, {8, 3});
  expect_refused([](auto& b) { return b.gelu(f16(b, {8})); }, "x is f16");
  expect_refused([](auto& b) { return b.sigmoid(f16(b, {8})); }, "x is f16");
  expect_refused([](auto& b) { return b.sqrt(i32(b, 8)); }, "x is i32");
  for (const float cap : {0.0f, -1.0f, kNaN, kInf})
    expect_refused([&](auto& b) { return b.soft_cap(f32(b, {8}), cap); }, "want a finite value > 0");
  expect_refused([](auto& b) { return b.clamp(f32(b, {8}), 1.0f, 0.5f); }, "clamp to 1 to 0.5");
  expect_refused([](auto& b) { return b.clamp(f32(b, {8}), kNaN, 0.5f); }, "clamp to nan");
}

TEST(UnaryRules, XieluWantsFiniteFactorsAndABoundOfAtMostZero) {
  expect_shape([](auto& b) { return b.xielu(f32(b, {8, 3}), {1, 2, 3, 0}); }, {8, 3});
  for (const XieluParams& p : {XieluParams{kNaN, 1, 1, 0}, XieluParams{1, kInf, 1, 0}, XieluParams{1, 1, -kInf, 0}})
    expect_refused([&](auto& b) { return b.xielu(f32(b, {8}), p); }, "want finite values");
  expect_refused([](auto& b) { return b.xielu(f32(b, {8}), {1, 1, 1, 1e-6f}); }, "bound 1e-06, want at most 0");
  expect_refused([](auto& b) { return b.xielu(f32(b, {8}), {1, 1, 1, kNaN}); }, "bound nan");
  expect_refused([](auto& b) { return b.xielu(f16(b, {8}), {}); }, "x is f16");
}

TEST(UnaryRules, SoftplusAndExpKeepTheShape) {
  expect_shape([](auto& b) { return b.softplus(f32(b, {4, 3, 2})); }, {4, 3, 2});
  expect_shape([](auto& b) { return b.exp(f32(b, {4, 0})); }, {4, 0});
  expect_refused([](auto& b) { return b.softplus(i32(b, {4})); }, "x is i32, want f32");
}

TEST(GateRules, WantTwoEqualShapes) {
  expect_shape([](auto& b) { return b.geglu(f32(b, {8, 3}), every_other_row(b, 8, 3)); }, {8, 3});
  expect_shape([](auto& b) { return b.swiglu_oai(f32(b, {8, 3}), f32(b, {8, 3})); }, {8, 3});
  expect_refused([](auto& b) { return b.geglu(f32(b, {8, 3}), f32(b, {8})); }, "differ in shape");
  expect_refused([](auto& b) { return b.swiglu_oai(f32(b, {8, 3}), f32(b, {8})); }, "differ in shape");
}

TEST(SwigluRule, WantsTwoEqualShapes) {
  expect_shape([](auto& b) { return b.swiglu(f32(b, {8, 3}), f32(b, {8, 3})); }, {8, 3});
  expect_refused([](auto& b) { return b.swiglu(f32(b, {8, 3}), f32(b, {8})); }, "differ in shape");
}

TEST(ActivationGradientRules, WantTwoEqualShapes) {
  expect_two_equal_shapes(&GraphBuilder::silu_grad);
  expect_two_equal_shapes(&GraphBuilder::gelu_grad);
  expect_shape([](auto& b) { return b.clamp_grad(f32(b, {8, 3}), f32(b, {8, 3}), -1, 1); }, {8, 3});
  expect_refused([](auto& b) { return b.clamp_grad(f32(b, {8, 3}), f32(b, {8}), -1, 1); }, "differ in shape");
}

}  // namespace
}  // namespace tessera
