// The shape rules of the operations of training: what they accept and give, and each thing they refuse.

#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

TEST(TransposeRule, ExchangesTheFirstTwoDimensionsOfAnyType) {
  expect_shape([](auto& b) { return b.transpose(f32(b, {8, 3, 2, 5})); }, {3, 8, 2, 5});
  expect_shape([](auto& b) { return b.transpose(f16(b, {8})); }, {1, 8});
  expect_shape([](auto& b) { return b.transpose(every_other_row(b, 8, 3)); }, {3, 8});
  expect_refused([](auto& b) { return b.transpose(Value()); }, "operand 0 is missing");
}

TEST(SumToRule, WantsExtentsThatAreKeptOrOne) {
  expect_shape([](auto& b) { return b.sum_to(f32(b, {8, 3, 2}), {8}); }, {8});
  expect_shape([](auto& b) { return b.sum_to(every_other_row(b, 8, 3), {1, 3}); }, {1, 3});
  expect_shape([](auto& b) { return b.sum_to(f32(b, {8, 0}), {8, 1}); }, {8, 1});
  expect_refused([](auto& b) { return b.sum_to(f32(b, {8, 3}), {8, 2}); }, "dimension 1: 3 and 2 do not match");
  expect_refused([](auto& b) { return b.sum_to(f32(b, {8, 1}), {8, 3}); }, "dimension 1: 1 and 3 do not match");
  expect_refused([](auto& b) { return b.sum_to(f16(b, {8}), {8}); }, "x is f16");
}

TEST(RepeatRule, WantsExtentsThatAreKeptOrWereOne) {
  expect_shape([](auto& b) { return b.repeat(f32(b, {8, 1, 2}), {8, 3, 2}); }, {8, 3, 2});
  expect_shape([](auto& b) { return b.repeat(f32(b, {1}), {8, 3}); }, {8, 3});
  expect_refused([](auto& b) { return b.repeat(f32(b, {8, 3}), {8, 1}); }, "dimension 1: 3 and 1 do not match");
  expect_refused([](auto& b) { return b.repeat(f32(b, {1}), {INT64_MAX, 8}); }, "");
}

TEST(PlaceRule, WantsDistinctPlacesWithin) {
  const auto place = [](auto& b, const Layout& at, size_t offset) {
    return b.place(f32(b, {4, 3}), {.shape = {8, 5}, .at = at, .offset = offset});
  };
  const Layout rows{.shape = {4, 3}, .nb = {4, 32, 96, 96}};
  expect_shape([&](auto& b) { return place(b, rows, 16 + 64); }, {8, 5});
  expect_refused([&](auto& b) { return place(b, rows, 16 + 96); }, "reaches outside [8, 5]");
  expect_refused([&](auto& b) { return place(b, rows, SIZE_MAX - 3); }, "");
  expect_refused([&](auto& b) { return place(b, rows, 2); }, "not distinct rows of floats");
  expect_refused([&](auto& b) { return place(b, {.shape = {4, 3}, .nb = {4, 12, 36, 36}}, 0); }, "not distinct rows");
  expect_refused([&](auto& b) { return place(b, {.shape = {4, 3}, .nb = {4, 0, 0, 0}}, 0); }, "not distinct rows");
  expect_refused([&](auto& b) { return place(b, {.shape = {4, 3}, .nb = {4, -32, 0, 0}}, 64); }, "not distinct rows");
  expect_refused([&](auto& b) { return place(b, {.shape = {4, 3}, .nb = {8, 32, 96, 96}}, 0); }, "not distinct rows");
  expect_refused(
      [&](auto& b) {
        return place(b, {.shape = {4, 3}, .nb = {4, INT64_MAX - 3, 0, 0}}, 0);
      },
      "not distinct rows");
  expect_refused(
      [&](auto& b) {
        return place(b, {.shape = {3, 4}, .nb = {4, 32, 96, 96}}, 0);
      },
      "x is [4, 3], its place [3, 4]");
}

TEST(ScatterRowsRule, WantsAnIdPerRow) {
  expect_shape([](auto& b) { return b.scatter_rows(every_other_row(b, 8, 3), i32(b, 3), 10); }, {8, 10});
  expect_shape([](auto& b) { return b.scatter_rows(f32(b, {8, 0}), i32(b, 0), 10); }, {8, 10});
  expect_refused([](auto& b) { return b.scatter_rows(f32(b, {8, 3}), i32(b, 4), 10); }, "ids has 4 entries, want 3");
  expect_refused([](auto& b) { return b.scatter_rows(f32(b, {8, 3}), f32(b, {3}), 10); }, "ids is f32");
  expect_refused([](auto& b) { return b.scatter_rows(f32(b, {8, 3, 2}), i32(b, 3), 10); }, "more than two dimensions");
  expect_refused([](auto& b) { return b.scatter_rows(f32(b, {8, 3}), i32(b, 3), -1); }, "-1 rows");
}

TEST(ActivationGradientRules, WantTwoEqualShapes) {
  using Method = Value (GraphBuilder::*)(Value, Value);
  for (const Method method :
       {Method(&GraphBuilder::silu_grad), Method(&GraphBuilder::gelu_grad), Method(&GraphBuilder::soft_max_grad)}) {
    expect_shape([=](auto& b) { return (b.*method)(every_other_row(b, 8, 3), f32(b, {8, 3})); }, {8, 3});
    expect_refused([=](auto& b) { return (b.*method)(f32(b, {8, 3}), f32(b, {8})); }, "differ in shape");
    expect_refused([=](auto& b) { return (b.*method)(f16(b, {8}), f32(b, {8})); }, "x is f16");
    expect_refused([=](auto& b) { return (b.*method)(f32(b, {8}), f16(b, {8})); }, "dy is f16");
  }
  expect_shape([](auto& b) { return b.clamp_grad(f32(b, {8, 3}), f32(b, {8, 3}), -1, 1); }, {8, 3});
  expect_refused([](auto& b) { return b.clamp_grad(f32(b, {8, 3}), f32(b, {8}), -1, 1); }, "differ in shape");
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

TEST(CrossEntropyRules, WantATargetPerRow) {
  expect_shape([](auto& b) { return b.cross_entropy(f32(b, {50, 3}), i32(b, 3)); }, {1, 3});
  expect_refused([](auto& b) { return b.cross_entropy(f32(b, {50, 3}), i32(b, 2)); }, "targets has 2 entries, want 3");
  expect_refused([](auto& b) { return b.cross_entropy(f32(b, {50, 3}), f32(b, {3})); }, "targets is f32");
  expect_refused([](auto& b) { return b.cross_entropy(f32(b, {0, 3}), i32(b, 3)); }, "logits [0, 3]");
  expect_refused([](auto& b) { return b.cross_entropy(f32(b, {50, 3, 2}), i32(b, 3)); }, "logits [50, 3, 2]");
  const auto gradient = [](auto& b, const Shape& d_loss) {
    return b.cross_entropy_grad(f32(b, {50, 3}), i32(b, 3), f32(b, d_loss));
  };
  expect_shape([&](auto& b) { return gradient(b, {1, 3}); }, {50, 3});
  expect_refused([&](auto& b) { return gradient(b, {3}); }, "d_loss [3], want one a token");
}

TEST(OptimizerRules, WantTensorsOfOneShapeAndTheNumbersOfAStep) {
  const auto hyper = [](auto& b) { return f32(b, {kHyperEntries}); };
  expect_shape([](auto& b) { return b.accumulate(f32(b, {8, 3}), f32(b, {8, 3})); }, {8, 3});
  expect_refused([](auto& b) { return b.accumulate(f32(b, {8, 3}), f32(b, {8})); }, "operand 1 is f32 [8], want");
  expect_refused([](auto& b) { return b.accumulate(f16(b, {8}), f32(b, {8})); }, "operand 0 is f16");
  expect_refused([](auto& b) { return b.accumulate(f32(b, {8, 3}), every_other_row(b, 8, 3)); }, "want contiguous");
  expect_shape([&](auto& b) { return b.momentum(f32(b, {8}), f32(b, {8}), hyper(b)); }, {8});
  expect_refused([](auto& b) { return b.momentum(f32(b, {8}), f32(b, {8}), f32(b, {7})); }, "numbers of the step [7]");
  expect_shape([&](auto& b) { return b.adam(f32(b, {8}), f32(b, {8}), f32(b, {8}), hyper(b)); }, {8});
  expect_refused([&](auto& b) { return b.adam(f32(b, {8}), f32(b, {9}), f32(b, {8}), hyper(b)); }, "operand 1");
  expect_refused([&](auto& b) { return b.adam(f32(b, {8}), f32(b, {8}), f32(b, {9}), hyper(b)); }, "operand 2");
  const auto descend = [&](auto& b, Value rounded) {
    return b.descend(f32(b, {8, 3}), f32(b, {8, 3}), hyper(b), rounded, {});
  };
  expect_shape([&](auto& b) { return descend(b, Value()); }, {8, 3});
  expect_shape([&](auto& b) { return descend(b, b.input("r", DType::bf16, {8, 3})); }, {8, 3});
  expect_refused([&](auto& b) { return descend(b, f16(b, {8, 3})); }, "the rounded copy is f16 [8, 3]");
  expect_refused([&](auto& b) { return descend(b, b.input("r", DType::bf16, {8})); }, "the rounded copy is bf16 [8]");
}

// A step writes its first operand, and returns it.
TEST(OptimizerRules, ResultsAreTheTensorsThemselves) {
  GraphBuilder b;
  const Value sum = f32(b, {8}), result = b.accumulate(sum, f32(b, {8}));
  const auto graph = std::move(b).finish();
  ASSERT_OK(graph);
  EXPECT_EQ(graph->storage(result.id()), sum.id());
}

}  // namespace
}  // namespace tessera
