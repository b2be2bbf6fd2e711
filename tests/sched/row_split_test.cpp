#include "tessera/sched/row_split.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "tests/sched/two_devices.h"
#include "tests/support/random_graph.h"

namespace tessera {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::GraphRunner;
using testing::HookedBackend;
using testing::NamedBytes;
using testing::outputs_of;
using testing::OwnedTensor;
using testing::run_once;
using testing::run_with;
using testing::set_inputs;
using testing::slices_of;
using testing::TwoDevices;

constexpr int64_t kRowWidth = 32;

/// A matrix [kRowWidth, n_rows] on the first device, and the same with its rows split over both.
struct SplitMatrix {
  OwnedTensor whole;
  std::vector<OwnedTensor> owned;
  std::vector<Tensor> parts;
  Tensor split;

  SplitMatrix(const TwoDevices& two, const std::string& name, const std::vector<int64_t>& rows, uint64_t seed)
      : whole(two.device(0).buffer_type(), name, DType::f32, {kRowWidth, sum(rows)}, values(seed, sum(rows))) {
    const Bytes bytes = values(seed, sum(rows));
    auto from = bytes.begin();
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto n = static_cast<ptrdiff_t>(rows[i] * kRowWidth) * static_cast<ptrdiff_t>(sizeof(float));
      owned.emplace_back(two.device(i % 2).buffer_type(), name + "." + std::to_string(i), DType::f32,
                         Shape{kRowWidth, rows[i]}, Bytes(from, from + n));
      from += n;
      parts.push_back(owned.back().tensor);
    }
    split = whole.tensor;
    split.buffer = nullptr;
    split.row_parts = &parts;
  }
  SplitMatrix(const SplitMatrix&) = delete;

  static int64_t sum(const std::vector<int64_t>& rows) { return std::accumulate(rows.begin(), rows.end(), int64_t{0}); }
  static Bytes values(uint64_t seed, int64_t n_rows) {
    Rng rng(seed);
    return bytes_of(testing::random_values(rng, kRowWidth * n_rows));
  }
};

// Layers like in a model, with three products, one of which reads the output of another.
Graph layers(const std::vector<const Tensor*>& weights, const Tensor& own, int n_layers) {
  GraphBuilder b;
  Value x = b.input("x", DType::f32, {kRowWidth, 3});
  for (int il = 0; il < n_layers; ++il) {
    const Value h = b.silu(b.mul_mat(b.tensor(own), x));
    const Value q = b.scale(b.mul_mat(b.tensor(*weights[0]), h), 0.5f);
    const Value k = b.name(b.mul_mat(b.tensor(*weights[1]), h), "keys");
    const Value o = b.mul_mat(b.tensor(*weights[2]), b.mul(q, k));
    x = b.name(b.add(o, x), "layer");
  }
  b.output(x, "y");
  return std::move(b).finish().value();
}

class RowSplitTest : public ::testing::Test {
 protected:
  Graph whole(int n_layers = 1) const {
    return layers({&q_.whole.tensor, &k_.whole.tensor, &o_.whole.tensor}, own_.whole.tensor, n_layers);
  }
  Graph split(int n_layers = 1) const { return layers({&q_.split, &k_.split, &o_.split}, own_.whole.tensor, n_layers); }
  NamedBytes inputs(uint64_t seed = 9) const {
    Rng rng(seed);
    return {{"x", bytes_of(testing::random_values(rng, kRowWidth * 3))}};
  }

  TwoDevices two_;
  SplitMatrix q_{two_, "q", {16, 16}, 1}, k_{two_, "k", {5, 27}, 2}, o_{two_, "o", {1, 16, 15}, 3};
  SplitMatrix own_{two_, "own", {32}, 4};
};

// The order derived by hand: for all products with h, first the parts on the other device, then the parts on the
// primary one, then the rest. On the primary device, only the concatenation of rows waits for the other device.
TEST_F(RowSplitTest, PartsRunWhereTheyLieAndAtTheSameTime) {
  ASSERT_OK_AND_ASSIGN(const Schedule made, make_schedule(split(), two_.devices(), {}));
  EXPECT_EQ(slices_of(made),
            "a:mul_mat,silu | b:copy ,mul_mat,mul_mat | a:mul_mat,mul_mat | a:copy q.1,copy k.1,concat,scale,concat,mul"
            " | b:copy ,mul_mat | a:mul_mat,mul_mat | a:copy o.1,concat,concat,add");
  EXPECT_TRUE(made.overlaps);
  using Counts = std::vector<uint32_t>;
  const std::vector<std::pair<Counts, Counts>> waits = {
      {{0, 0}, {0, 0}}, {{1, 0}, {0, 0}}, {{0, 0}, {0, 1}}, {{0, 1}, {0, 1}},
      {{3, 0}, {3, 0}}, {{0, 0}, {0, 2}}, {{0, 2}, {0, 2}},
  };
  ASSERT_EQ(made.slices.size(), waits.size());
  for (size_t i = 0; i < waits.size(); ++i) {
    const Slice& slice = made.slices[i];
    EXPECT_EQ(std::pair(slice.ended, slice.copied), waits[i]) << "slice " << i;
  }
}

TEST_F(RowSplitTest, NumbersAreThoseOfTheGivenGraph) {
  const Graph graph = split();
  ASSERT_OK_AND_ASSIGN(const Schedule made, make_schedule(graph, two_.devices(), {}));
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = made.graph[made.id_of(id)];
    EXPECT_EQ(node.spec.shape(), graph[id].tensor == nullptr || graph[id].tensor->row_parts == nullptr
                                     ? graph[id].spec.shape()
                                     : graph[id].tensor->row_parts->front().shape());
    if (graph[id].tensor != nullptr) continue;
    EXPECT_EQ(node.name, graph[id].name);
    EXPECT_EQ(node.op == graph[id].op, node.op != Op::concat);
  }
}

TEST_F(RowSplitTest, BitsAreThoseOfWholeMatricesHoweverTheDevicesRun) {
  GraphRunner one("", 1);
  ASSERT_OK_AND_ASSIGN(const NamedBytes expected, one.run(whole(8), inputs()));
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Rng delays[] = {Rng(seed), Rng(seed + 1000)};
    const auto hook = [&delays](size_t i) {
      return [&rng = delays[i]] { std::this_thread::sleep_for(std::chrono::microseconds(rng.next_u32() % 60)); };
    };
    HookedBackend a(two_.backend(0), hook(0)), b(two_.backend(1), hook(1));
    ASSERT_OK_AND_ASSIGN(const NamedBytes outputs, run_once(Executor({&a, &b}, {}), split(8), inputs()));
    ASSERT_EQ(outputs, expected) << "seed " << seed;
  }
}

// A meeting of the devices: each waits at its first product of parts for the other.
class Meeting {
 public:
  explicit Meeting(const TwoDevices& two)
      : a_(two.backend(0), [this] { wait(0); }), b_(two.backend(1), [this] { wait(1); }) {}

  std::vector<Backend*> backends() { return {&a_, &b_}; }
  int n_met() const { return n_met_; }

 private:
  void wait(size_t device) {
    std::unique_lock lock(mutex_);
    ++n_runs_[device];
    changed_.notify_all();
    if (n_runs_[device] != (device == 0 ? 2 : 1)) return;  // the first device has an earlier slice
    const auto are_there = [&] { return n_runs_[0] >= 2 && n_runs_[1] >= 1; };
    n_met_ += changed_.wait_for(lock, std::chrono::seconds(60), are_there);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int n_runs_[2] = {0, 0};
  int n_met_ = 0;
  HookedBackend a_, b_;
};

TEST_F(RowSplitTest, DevicesMultiplyAtTheSameTime) {
  Meeting meeting(two_);
  GraphRunner one("", 1);
  ASSERT_OK_AND_ASSIGN(const NamedBytes expected, one.run(whole(), inputs()));
  ASSERT_OK_AND_ASSIGN(const NamedBytes outputs, run_once(Executor(meeting.backends(), {}), split(), inputs()));
  EXPECT_EQ(outputs, expected);
  EXPECT_EQ(meeting.n_met(), 2);
}

// A log shows the real order: devices overlap, and the slices of a device run one after another.
TEST_F(RowSplitTest, ALogTellsWhatWasAtTheSameTime) {
  Meeting meeting(two_);
  const Graph graph = split();
  Executor executor(meeting.backends(), {});
  ASSERT_OK(executor.reserve({&graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph));
  ASSERT_OK(set_inputs(*prepared, inputs()));
  RunLog log;
  ASSERT_OK(executor.run(*prepared, {.log = &log}));
  EXPECT_EQ(meeting.n_met(), 2);
  const std::vector<Slice>& slices = prepared->schedule().slices;
  ASSERT_EQ(log.slices.size(), slices.size());
  EXPECT_EQ(log.copies.size(), prepared->schedule().n_copies());
  std::vector<RunLog::Slice> times(slices.size());
  for (const RunLog::Slice& slice : log.slices) times[slice.index] = slice;
  const auto end_of = [&](size_t i) { return times[i].begin_us + times[i].us; };
  double ends[] = {0, 0};
  for (size_t i = 0; i < slices.size(); ++i) {
    double& end_of_device = ends[slices[i].device];
    EXPECT_GE(times[i].begin_us, end_of_device);
    end_of_device = end_of(i);
  }
  EXPECT_LT(times[1].begin_us, end_of(2));  // the parts on the other device overlap with those on the primary one
  EXPECT_LT(times[2].begin_us, end_of(1));
}

TEST_F(RowSplitTest, WatchedValuesAreWhole) {
  const Graph graph = split(2);
  const ScheduleOptions options{.watch = [](const Graph& g, NodeId id) { return g[id].name == "keys"; }};
  Executor executor = two_.executor(options);
  ASSERT_OK(executor.reserve({&graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph));
  std::vector<NodeId> seen;
  ASSERT_OK(run_with(executor, *prepared, inputs(), [&](NodeId id, const Tensor& value) -> Result<> {
    seen.push_back(id);
    EXPECT_EQ(value.shape(), (Shape{kRowWidth, 3}));
    return {};
  }));
  ASSERT_EQ(seen.size(), 2u);
  for (const NodeId id : seen) EXPECT_EQ(graph[id].name, "keys");
}

TEST_F(RowSplitTest, APinnedProductIsPutTogetherThere) {
  const Graph graph = split();
  const ScheduleOptions options{.pin = [](const Graph& g, NodeId id) -> std::optional<int> {
    return g[id].name == "keys" ? std::optional(1) : std::nullopt;
  }};
  ASSERT_OK_AND_ASSIGN(const Schedule made, make_schedule(graph, two_.devices(), options));
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph[id].name != "keys") continue;
    EXPECT_EQ(made.assignment.device(made.id_of(id)), 1);
  }
  GraphRunner one("", 1);
  ASSERT_OK_AND_ASSIGN(const NamedBytes expected, one.run(whole(), inputs()));
  EXPECT_EQ(run_once(two_.executor(options), graph, inputs()).value(), expected);
}

TEST_F(RowSplitTest, WhatIsNoProductIsRefused) {
  GraphBuilder b;
  b.output(b.get_rows(b.tensor(q_.split), b.input("ids", DType::i32, {2})), "rows");
  EXPECT_ERROR(make_schedule(std::move(b).finish().value(), two_.devices(), {}),
               "reads q, whose rows lie in several memories");
  GraphBuilder viewed;
  const Value view = viewed.reshape(viewed.tensor(q_.split), {kRowWidth * kRowWidth});
  viewed.output(viewed.scale(view, 2), "y");
  EXPECT_ERROR(make_schedule(std::move(viewed).finish().value(), two_.devices(), {}), "whose rows lie");
}

TEST_F(RowSplitTest, AGraphWithoutSplitMatricesStaysAsItIs) {
  ASSERT_OK_AND_ASSIGN(const std::optional<RowSplit> none, split_rows(whole()));
  EXPECT_FALSE(none.has_value());
}

TEST_F(RowSplitTest, AnErrorEndsTheRunAndTheNextIsRight) {
  const auto graph_of = [&](const Tensor& q) {
    GraphBuilder b;
    const Value rows = b.get_rows(b.tensor(own_.whole.tensor), b.input("ids", DType::i32, {3}));
    b.output(b.mul_mat(b.tensor(q), rows), "y");
    return std::move(b).finish().value();
  };
  const auto ids = [](int32_t last) { return NamedBytes{{"ids", bytes_of(std::vector<int32_t>{0, 1, last})}}; };
  GraphRunner one("", 1);
  ASSERT_OK_AND_ASSIGN(const NamedBytes expected, one.run(graph_of(q_.whole.tensor), ids(2)));
  const Graph graph = graph_of(q_.split);
  Executor executor = two_.executor();
  ASSERT_OK(executor.reserve({&graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph));
  for (int run = 0; run < 10; ++run) {
    EXPECT_FALSE(run_with(executor, *prepared, ids(1 << 20)));
    ASSERT_OK_AND_ASSIGN(const NamedBytes outputs, run_with(executor, *prepared, ids(2)));
    EXPECT_EQ(outputs, expected);
  }
}

}  // namespace
}  // namespace tessera
