#include "tessera/sched/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/graph/op_info.h"
#include "tests/support/random_graph.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

constexpr size_t kAlignment = 64;

Graph finished(GraphBuilder b) { return std::move(b).finish().value(); }

size_t at(const MemoryPlan& plan, Value v) { return plan.offsets[static_cast<size_t>(v.id())]; }

// ---- brute force: the lifetime of each stored value, computed from the nodes alone

struct Life {
  NodeId node, first, last;
  size_t begin, end;  // bytes
};

std::vector<Life> lives(const Graph& graph, const MemoryPlan& plan) {
  std::vector<Life> all;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.storage(id) != id || graph[id].op == Op::tensor) continue;
    Life life{.node = id, .first = graph[id].op == Op::input ? 0 : id, .last = id, .begin = 0, .end = 0};
    for (NodeId other = 0; other < graph.size(); ++other) {
      if (graph.storage(other) == id && graph[other].is_output) life.last = graph.size();
      for (const NodeId source : graph[other].inputs())
        if (source != kNoNode && graph.storage(source) == id) life.last = std::max(life.last, other);
    }
    life.begin = plan.offsets[static_cast<size_t>(id)];
    life.end = life.begin + span_bytes(graph[id].spec.dtype, graph[id].spec.layout);
    all.push_back(life);
  }
  return all;
}

// Whether b may be, and is, computed in the bytes of a by the last node that reads a.
bool takes_the_place_of(const Graph& graph, const Life& a, const Life& b) {
  const Node& node = graph[b.node];
  if (b.first != b.node || a.last != b.node || a.begin != b.begin || a.end != b.end) return false;
  int n_reads = 0;
  bool allowed = false;
  for (size_t i = 0; i < node.n_sources; ++i) {
    const NodeId source = node.sources[i];
    if (source == kNoNode || graph.storage(source) != a.node) continue;
    ++n_reads;
    allowed |= may_run_in_place(node.op, i) && graph.storage_offset(source) == 0 &&
               graph[source].spec.layout == node.spec.layout;
  }
  return n_reads == 1 && allowed;
}

TEST(MemoryPlan, ValuesAliveAtTheSameTimeNeverOverlap) {
  int n_in_place = 0, n_shared = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = testing::random_graph(seed, 40, false).graph;
    ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(graph, kAlignment));
    const std::vector<Life> all = lives(graph, plan);
    for (const Life& a : all) {
      ASSERT_EQ(a.begin % kAlignment, 0u);
      ASSERT_LE(a.end, plan.bytes);
      for (const Life& b : all) {
        if (b.node <= a.node || a.begin >= b.end || b.begin >= a.end) continue;
        const bool apart = a.last < b.first || b.last < a.first;
        const bool in_place = !apart && takes_the_place_of(graph, a, b);
        ASSERT_TRUE(apart || in_place) << "seed " << seed << ": nodes " << a.node << " and " << b.node;
        (in_place ? n_in_place : n_shared) += 1;
      }
    }
  }
  EXPECT_GT(n_in_place, 1000);  // sharing did occur
  EXPECT_GT(n_shared, 1000);
}

TEST(MemoryPlan, AliasesLieWithinTheirStorage) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Graph graph = testing::random_graph(seed, 40, false).graph;
    ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(graph, kAlignment));
    for (NodeId id = 0; id < graph.size(); ++id)
      ASSERT_EQ(plan.offsets[static_cast<size_t>(id)],
                plan.offsets[static_cast<size_t>(graph.storage(id))] + graph.storage_offset(id));
  }
}

// ---- plans derived by hand: values of 16 floats have 64 bytes

TEST(MemoryPlan, AChainRunsInPlace) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {16});
  const Value y = b.output(b.soft_max(b.scale(b.silu(x), 2.0f)), "y");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_EQ(plan.bytes, 64u);
  EXPECT_EQ(at(plan, y), at(plan, x));
}

TEST(MemoryPlan, AnOperandThatIsReadLaterIsNotOverwritten) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {16});
  const Value s = b.silu(x);
  const Value y = b.output(b.add(s, x), "y");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_EQ(plan.bytes, 128u);
  EXPECT_NE(at(plan, s), at(plan, x));
  EXPECT_EQ(at(plan, y), at(plan, s));
}

TEST(MemoryPlan, TheSameValueTwiceIsNotOverwritten) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {16});
  const Value y = b.output(b.mul(x, x), "y");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_NE(at(plan, y), at(plan, x));
}

TEST(MemoryPlan, AMatrixProductIsNeverInPlace) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {16, 16});
  const Value w = b.input("w", DType::f32, {16, 16});
  const Value y = b.output(b.mul_mat(w, x), "y");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_EQ(plan.bytes, 3u * 16 * 16 * 4);
  EXPECT_NE(at(plan, y), at(plan, x));
  EXPECT_NE(at(plan, y), at(plan, w));
}

TEST(MemoryPlan, SwigluMayReplaceEitherOperand) {
  GraphBuilder b;
  const Value gate = b.input("gate", DType::f32, {16}), up = b.input("up", DType::f32, {16});
  const Value y = b.swiglu(gate, up);
  b.output(b.add(y, gate), "y");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_EQ(at(plan, y), at(plan, up));
  EXPECT_EQ(plan.bytes, 128u);
}

TEST(MemoryPlan, OutputsAreKeptToTheEnd) {
  GraphBuilder b;
  const Value first = b.output(b.silu(b.input("x", DType::f32, {16})), "first");
  Value x = first;
  for (int i = 0; i < 4; ++i) x = b.scale(x, 0.5f);
  b.output(x, "last");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_NE(at(plan, x), at(plan, first));
  EXPECT_EQ(plan.bytes, 128u);
}

TEST(MemoryPlan, AnOutputThatIsAViewKeepsItsStorage) {
  GraphBuilder b;
  const Value x = b.silu(b.input("x", DType::f32, {16}));
  b.output(b.reshape(x, {4, 4}), "view");
  const Value y = b.output(b.scale(x, 2.0f), "y");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_NE(at(plan, y), at(plan, x));
}

TEST(MemoryPlan, InputsAreLiveFromTheStart) {
  GraphBuilder b;
  Value x = b.input("x", DType::f32, {16});
  for (int i = 0; i < 3; ++i) x = b.silu(x);
  const Value late = b.input("late", DType::f32, {16});  // follows values that are dead by then
  b.output(b.add(x, late), "y");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_EQ(plan.bytes, 128u);
  EXPECT_NE(at(plan, late), at(plan, x));
  EXPECT_EQ(plan.lifetimes[1].node, late.id());
  EXPECT_EQ(plan.lifetimes[1].first, 0);
}

TEST(MemoryPlan, TensorsTakeNoBytes) {
  Tensor weight{{DType::f32, contiguous_layout(DType::f32, {16, 16}).value()}, "w"};
  GraphBuilder b;
  const Value w = b.tensor(weight);
  b.output(b.mul_mat(w, b.input("x", DType::f32, {16})), "y");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_EQ(at(plan, w), MemoryPlan::kElsewhere);
  EXPECT_EQ(plan.bytes, 128u);
}

TEST(MemoryPlan, EmptyValuesStillHaveAPlace) {
  GraphBuilder b;
  const Value y = b.output(b.silu(b.input("x", DType::f32, {16, 0})), "y");
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(std::move(b)), kAlignment));
  EXPECT_LT(at(plan, y), plan.bytes);
}

TEST(MemoryPlan, RefusesSizesThatOverflow) {
  GraphBuilder b;
  for (const char* name : {"a", "b", "c", "d", "e"}) b.input(name, DType::i8, {int64_t{1} << 62, 1});
  EXPECT_ERROR(plan_memory(finished(std::move(b)), size_t{1} << 62), "overflows");
}

TEST(MemoryPlan, AnEmptyGraphTakesNothing) {
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, plan_memory(finished(GraphBuilder()), kAlignment));
  EXPECT_EQ(plan.bytes, 0u);
}

}  // namespace
}  // namespace tessera
