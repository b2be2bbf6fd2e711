#include "tessera/graph/builder.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using testing::finished;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(GraphBuilder, MessageOfARefusalHasOperationNamesTypesAndShapes) {
  GraphBuilder b;
  const Value w = b.input("blk.0.attn_q.weight", DType::q8_0, {64, 32});
  const Value x = b.input("norm", DType::f32, {96, 7});
  EXPECT_FALSE(b.mul_mat(w, x).present());
  const auto graph = std::move(b).finish();
  EXPECT_ERROR(graph, "mul_mat blk.0.attn_q.weight q8_0 [64, 32], norm f32 [96, 7]: ");
  EXPECT_EQ(graph.error().code(), ErrorCode::invalid_argument);
}

TEST(GraphBuilder, AnUnnamedOperandIsNamedByItsOperation) {
  GraphBuilder b;
  const Value x = b.silu(b.input("x", DType::f32, {8}));
  b.add(x, b.input("b", DType::f32, {7}));
  EXPECT_ERROR(std::move(b).finish(), "add silu f32 [8], b f32 [7]: dimension 0: 8 and 7 do not match");
}

TEST(GraphBuilder, TheFirstErrorWins) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {8});
  b.add(x, b.input("first", DType::f32, {7}));
  b.mul(x, b.input("second", DType::f32, {5}));
  b.fail_with(Error(ErrorCode::internal, "third"));
  EXPECT_ERROR(std::move(b).finish(), "first");
}

TEST(GraphBuilder, EveryCallAfterAnErrorIsPoisoned) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {8, 2});
  b.fail_with(Error(ErrorCode::format, "the model's own"));
  const Tensor tensor{{DType::f32, b.spec(x).layout}, "t"};
  EXPECT_FALSE(b.input("y", DType::f32, {8}).present());
  EXPECT_FALSE(b.tensor(tensor).present());
  EXPECT_FALSE(b.reshape(x, {16}).present());
  EXPECT_FALSE(b.view(x, b.spec(x).layout, 0).present());
  EXPECT_FALSE(b.cast(x, DType::f16).present());
  EXPECT_FALSE(b.silu(x).present());
  EXPECT_FALSE(b.output(x, "y").present());
  EXPECT_ERROR(std::move(b).finish(), "the model's own");
}

TEST(GraphBuilder, AnAbsentOperandIsAnErrorNotACrash) {
  for (const auto call :
       {+[](GraphBuilder& b) { b.silu(Value()); }, +[](GraphBuilder& b) { b.reshape(Value(), {1}); },
        +[](GraphBuilder& b) { b.view(Value(), {}, 0); }, +[](GraphBuilder& b) { b.cast(Value(), DType::f16); },
        +[](GraphBuilder& b) { b.kv_store(Value(), Value(), Value(), KvSide::k); }}) {
    GraphBuilder b;
    call(b);
    EXPECT_ERROR(std::move(b).finish(), "operand 0 is missing");
  }
}

TEST(GraphBuilder, AfterStopCallsAddNothingAndNoneIsAnError) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {4, 2});
  const Value y = b.output(b.scale(x, 2.0f), "y");
  b.stop();
  const Value none = b.add(x, y);
  for (const Value absent :
       {none, b.add(none, none), b.input("z", DType::f32, {4}), b.reshape(x, {8}), b.reshape(none, {3}),
        b.view(x, b.spec(x).layout, 0), b.cast(x, DType::f16), b.output(y, "z"), b.name(none, "z")})
    EXPECT_FALSE(absent.present());
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  ASSERT_EQ(graph.size(), 2);
  EXPECT_EQ(graph[1].name, "y");
}

TEST(GraphBuilder, SpecOfAnAbsentValueIsEmpty) {
  GraphBuilder b;
  EXPECT_EQ(b.spec(Value()).shape(), Shape());
}

TEST(GraphBuilder, RefusesAnInputOfAnImpossibleShape) {
  for (const Shape& shape : {Shape{-1}, Shape{kHuge, 2}, Shape{3, -2}}) {
    GraphBuilder b;
    b.input("bad", DType::f32, shape);
    EXPECT_ERROR(std::move(b).finish(), "input bad");
  }
}

TEST(GraphBuilder, OutputKeepsNameAndMark) {
  GraphBuilder b;
  b.output(b.name(b.silu(b.input("x", DType::f32, {8})), "mid"), "y");
  const Graph graph = finished(b);
  EXPECT_EQ(graph[1].name, "y");
  EXPECT_TRUE(graph[1].is_output);
  EXPECT_FALSE(graph[0].is_output);
}

TEST(GraphBuilder, ObservesProductsWithTensorsOnly) {
  const Layout layout = contiguous_layout(DType::f32, {8, 5}).value();
  const Tensor weights{{DType::f32, layout}, "blk.0.up.weight"};
  for (const bool is_observed : {false, true}) {
    GraphBuilder b;
    if (is_observed) b.observe_products();
    const Value x = b.input("x", DType::f32, {8, 3});
    const NodeId product = b.mul_mat(b.tensor(weights), x).id();
    b.mul_mat(b.input("w", DType::f32, {8, 5}), x);
    const Graph graph = finished(b);
    std::vector<std::string> outputs;
    for (const Node& node : graph.nodes())
      if (node.is_output) outputs.push_back(node.name);
    EXPECT_EQ(graph[product].op, Op::mul_mat);
    EXPECT_EQ(outputs, is_observed ? std::vector<std::string>{"blk.0.up.weight.in_sum2"} : std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace tessera
