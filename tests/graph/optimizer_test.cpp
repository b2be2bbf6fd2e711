// The shape rules of the steps of an optimizer.
#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

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
