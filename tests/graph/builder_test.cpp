#include "tessera/graph/builder.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/testing.h"

namespace tessera {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

Graph finished(GraphBuilder& b) {
  auto graph = std::move(b).finish();
  EXPECT_OK(graph);
  return graph ? std::move(*graph) : Graph();
}

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
  const Tensor tensor{.name = "t", .dtype = DType::f32, .layout = b.spec(x).layout};
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
  const Tensor weights{.name = "blk.0.up.weight", .dtype = DType::f32, .layout = layout};
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

TEST(Reshape, SharesTheBytesOfItsOperand) {
  GraphBuilder b;
  const Value x = b.silu(b.input("x", DType::f32, {6, 4}));
  const Value y = b.reshape(b.reshape(x, {3, 2, 4}), {24});
  EXPECT_EQ(b.spec(y).shape(), (Shape{24}));
  const NodeId last = y.id();
  const Graph graph = finished(b);
  EXPECT_EQ(graph.storage(last), 1);
  EXPECT_EQ(graph.storage_offset(last), 0u);
}

TEST(Reshape, RefusesAnotherNumberOfElements) {
  GraphBuilder b;
  b.reshape(b.input("x", DType::f32, {6, 4}), {5, 5});
  EXPECT_ERROR(std::move(b).finish(), "reshape x [6, 4]: [5, 5] has another number of elements");
}

TEST(Reshape, RefusesRowsThatSplitABlock) {
  GraphBuilder b;
  b.reshape(b.input("x", DType::q8_0, {64, 2}), {16, 8});
  EXPECT_ERROR(std::move(b).finish(), "reshape x [64, 2]");
}

TEST(Reshape, RefusesAStridedOperand) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {6, 4});
  b.reshape(b.view(x, {.shape = {3, 4}, .nb = {4, 24, 96, 96}}, 0), {12});
  EXPECT_ERROR(std::move(b).finish(), "not contiguous");
}

TEST(Reshape, RefusesAnOverflowingShape) {
  GraphBuilder b;
  b.reshape(b.input("x", DType::f32, {0, 4}), {kHuge, kHuge, 0});
  EXPECT_ERROR(std::move(b).finish(), "reshape x");
}

struct ViewCase {
  const char* why;
  Layout layout;
  size_t offset;
};

TEST(View, AcceptsWhatLiesInside) {
  for (const ViewCase& c : {ViewCase{"", {.shape = {6, 4}, .nb = {4, 24, 96, 96}}, 0},
                            ViewCase{"", {.shape = {2, 4}, .nb = {4, 24, 96, 96}}, 16},
                            ViewCase{"", {.shape = {6, 100}, .nb = {4, 0, 0, 0}}, 72},
                            ViewCase{"", {.shape = {6, 0}, .nb = {4, 24, 0, 0}}, 96}}) {
    GraphBuilder b;
    const Value v = b.view(b.input("x", DType::f32, {6, 4}), c.layout, c.offset);
    const NodeId id = v.id();
    const Graph graph = finished(b);
    ASSERT_NE(id, kNoNode);
    EXPECT_EQ(graph.storage(id), 0);
    EXPECT_EQ(graph.storage_offset(id), c.offset);
  }
}

TEST(View, RefusesWhatReachesOutside) {
  const size_t top = std::numeric_limits<size_t>::max();
  for (const ViewCase& c :
       {ViewCase{"reaches outside", {.shape = {6, 4}, .nb = {4, 24, 96, 96}}, 4},
        ViewCase{"reaches outside", {.shape = {7, 4}, .nb = {4, 24, 96, 96}}, 0},
        ViewCase{"reaches outside", {.shape = {6, 5}, .nb = {4, 24, 96, 96}}, 0},
        ViewCase{"reaches outside", {.shape = {6, 1}, .nb = {4, 24, 96, 96}}, top - 3},
        ViewCase{"reaches outside", {.shape = {1, 2, 2, 2}, .nb = {4, 4, 4, 96}}, 0},
        ViewCase{"stride out of range", {.shape = {6, 2}, .nb = {4, -24, 96, 96}}, 24},
        ViewCase{"stride out of range", {.shape = {6, 3}, .nb = {4, kHuge / 2 + 1, 96, 96}}, 0},
        ViewCase{"stride out of range", {.shape = {1, 2, 2}, .nb = {4, kHuge - 7, kHuge - 7, 96}}, 0},
        ViewCase{"not possible", {.shape = {-1, 2}, .nb = {4, 24, 96, 96}}, 0},
        ViewCase{"not possible", {.shape = {kHuge, 4}, .nb = {4, 24, 96, 96}}, 0},
        ViewCase{"must be contiguous", {.shape = {3, 4}, .nb = {8, 24, 96, 96}}, 0},
        ViewCase{"stride splits", {.shape = {2, 4}, .nb = {4, 10, 96, 96}}, 0},
        ViewCase{"offset splits", {.shape = {2, 4}, .nb = {4, 24, 96, 96}}, 2}}) {
    GraphBuilder b;
    b.view(b.input("x", DType::f32, {6, 4}), c.layout, c.offset);
    EXPECT_ERROR(std::move(b).finish(), c.why);
  }
}

TEST(View, OffsetsOfNestedViewsAdd) {
  GraphBuilder b;
  const Value x = b.silu(b.input("x", DType::f32, {8, 4}));
  const Value rows = b.view(x, {.shape = {8, 2}, .nb = {4, 32, 64, 64}}, 64);
  const Value part = b.view(rows, {.shape = {4, 2}, .nb = {4, 32, 64, 64}}, 16);
  const NodeId id = part.id();
  const Graph graph = finished(b);
  EXPECT_EQ(graph.storage(id), 1);
  EXPECT_EQ(graph.storage_offset(id), 80u);
}

TEST(KvStore, ResultIsTheCacheItself) {
  GraphBuilder b;
  const Value cache = b.input("cache", DType::f32, {8, 64, 2, 3});
  const Value stored =
      b.kv_store(cache, b.input("x", DType::f32, {8, 2, 5}), b.input("cells", DType::i32, {5}), KvSide::k);
  const NodeId id = stored.id();
  const Graph graph = finished(b);
  EXPECT_EQ(graph.storage(id), 0);
  EXPECT_EQ(graph[id].spec.shape(), (Shape{8, 64, 2, 3}));
}

TEST(Cast, RefusesATypeWhoseBlocksDoNotFit) {
  GraphBuilder b;
  b.cast(b.input("x", DType::f32, {33, 2}), DType::q8_0);
  EXPECT_ERROR(std::move(b).finish(), "cast x f32 [33, 2]: row of 33 elements: q8_0 needs");
}

}  // namespace
}  // namespace tessera
