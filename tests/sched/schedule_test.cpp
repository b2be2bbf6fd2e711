#include "tessera/sched/schedule.h"

#include <gtest/gtest.h>

#include <chrono>
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
using testing::SomeOpsDevice;
using testing::TwoDevices;

constexpr int64_t kN = 16;

OwnedTensor matrix(const Device& device, std::string name, uint64_t seed = 1) {
  Rng rng(seed);
  return {device.buffer_type(), std::move(name), DType::f32, {kN, kN}, bytes_of(testing::random_values(rng, kN * kN))};
}

class ScheduleTest : public ::testing::Test {
 protected:
  Result<Schedule> schedule(GraphBuilder b, const ScheduleOptions& options = {}) {
    TESSERA_ASSIGN(Graph graph, std::move(b).finish());
    return make_schedule(std::move(graph), two_.devices(), options);
  }
  TwoDevices two_;
  OwnedTensor a_ = matrix(two_.device(0), "wa"), b_ = matrix(two_.device(1), "wb", 2);
};

// --- slices and copies derived by hand: nodes without weights join the first device if it is a neighbour

TEST_F(ScheduleTest, AChainIsCutWhereItsWeightsChangeDevices) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN, 3});
  const Value h = b.output(b.silu(b.mul_mat(b.tensor(a_.tensor), x)), "h");
  const Value g = b.output(b.silu(b.mul_mat(b.tensor(b_.tensor), h)), "g");
  b.output(b.mul_mat(b.tensor(a_.tensor), g), "y");
  ASSERT_OK_AND_ASSIGN(const Schedule made, schedule(std::move(b)));
  EXPECT_EQ(slices_of(made), "a:mul_mat,silu | b:copy h,mul_mat | a:copy ,silu,mul_mat");
  EXPECT_EQ(made.n_copies(), 2u);
}

// The residual is copied for the first product that reads it, and the copy serves the second sum too.
TEST_F(ScheduleTest, WhatWasCopiedStays) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN, 3});
  const Value h = b.output(b.mul_mat(b.tensor(a_.tensor), x), "h");
  const Value g = b.output(b.add(h, b.mul_mat(b.tensor(b_.tensor), h)), "g");
  const Value k = b.output(b.mul_mat(b.tensor(a_.tensor), g), "k");
  b.output(b.add(h, b.mul_mat(b.tensor(b_.tensor), k)), "y");
  ASSERT_OK_AND_ASSIGN(const Schedule made, schedule(std::move(b)));
  EXPECT_EQ(slices_of(made), "a:mul_mat | b:copy h,mul_mat | a:copy ,add,mul_mat | b:copy k,mul_mat,add");
}

// A table that layers on both devices read is computed once and copied once.
TEST_F(ScheduleTest, ATableForAllLayersIsCopiedOnce) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN, 3});
  const Value table = b.output(b.rope_table(b.input("positions", DType::i32, {3}), {}, {.n_rot = kN}), "table");
  Value h = x;
  for (const OwnedTensor* w : {&a_, &a_, &b_, &b_}) {
    const Value q = b.reshape(b.mul_mat(b.tensor(w->tensor), h), {kN, 1, 3});
    h = b.output(b.reshape(b.rope(q, table, RopePairs::halves), {kN, 3}), "h");
  }
  b.output(h, "y");
  ASSERT_OK_AND_ASSIGN(const Schedule made, schedule(std::move(b)));
  EXPECT_EQ(made.slices.size(), 2u);
  EXPECT_EQ(slices_of(made).substr(slices_of(made).find('|')), "| b:copy ,copy table,mul_mat,rope,mul_mat,rope");
}

// --- assignment

TEST_F(ScheduleTest, WhatStoresIntoATensorRunsWhereThatLies) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN, kN});
  const Value product = b.mul_mat(b.tensor(a_.tensor), x);
  b.output(b.accumulate(b.tensor(b_.tensor), product), "sum");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  ASSERT_OK_AND_ASSIGN(const Assignment made, assign(graph, two_.devices()));
  EXPECT_EQ(describe(graph, made, two_.devices()),
            "2 mul_mat wa f32 [16, 16], x f32 [16, 16]: cpu (reads 1 wa)\n"
            "4 accumulate wb f32 [16, 16], mul_mat f32 [16, 16]: cpu (stores 3 wb)\n");
  EXPECT_EQ(made.device(2), 0);
  EXPECT_EQ(made.device(4), 1);
}

TEST_F(ScheduleTest, UnfixedNodesExpandFromDevicesOfHigherPriority) {
  GraphBuilder b;
  const Value x = b.silu(b.input("x", DType::f32, {kN, 3}));     // the last device is its only neighbour
  const Value last = b.silu(b.mul_mat(b.tensor(b_.tensor), x));  // between both: joins the first
  b.output(b.silu(b.mul_mat(b.tensor(a_.tensor), b.silu(last))), "y");
  ASSERT_OK_AND_ASSIGN(const Schedule made, schedule(std::move(b)));
  EXPECT_EQ(slices_of(made), "b:silu,mul_mat | a:copy ,silu,silu,mul_mat,silu");
}

TEST_F(ScheduleTest, PinsComeFirst) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN, 3});
  const Value h = b.output(b.silu(b.mul_mat(b.tensor(a_.tensor), x)), "here");
  b.output(b.mul_mat(b.tensor(a_.tensor), h), "y");
  const ScheduleOptions pinned{.pin = [](const Graph& g, NodeId id) -> std::optional<int> {
    if (g[id].name == "here") return 1;
    return std::nullopt;
  }};
  ASSERT_OK_AND_ASSIGN(const Schedule made, schedule(std::move(b), pinned));
  EXPECT_EQ(slices_of(made), "a:mul_mat | b:copy ,silu | a:copy here,mul_mat");
}

TEST_F(ScheduleTest, APinToADeviceThatCannotIsAnError) {
  GraphBuilder b;
  b.output(b.silu(b.input("x", DType::f32, {kN})), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  const SomeOpsDevice products("products", two_.device(0), [](const Node& n) { return n.op == Op::mul_mat; });
  const Device* const devices[] = {&products, &two_.device(0)};
  EXPECT_ERROR(assign(graph, devices, [](const Graph&, NodeId) { return 0; }), "products cannot run silu x f32 [16]");
  EXPECT_ERROR(assign(graph, devices, [](const Graph&, NodeId) { return 2; }), "device 2, want 0 to 1");
}

TEST_F(ScheduleTest, ADeviceGetsNothingThatItDoesNotSupport) {
  const SomeOpsDevice products("products", two_.device(1), [](const Node& n) { return n.op == Op::mul_mat; });
  GraphBuilder b;
  const Value x = b.silu(b.input("x", DType::f32, {kN, 3}));
  const Value h = b.silu(b.mul_mat(b.tensor(b_.tensor), x));
  b.output(b.mul_mat(b.tensor(a_.tensor), h), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  // Both products run on it. It can use the memory of wb, and wa, the weight of the other product, is on the last
  // device.
  const Device* const devices[] = {&products, &two_.device(1), &two_.device(0)};
  ASSERT_OK_AND_ASSIGN(const Schedule made, make_schedule(graph, devices, {}));
  EXPECT_EQ(slices_of(made), "b:silu | a:mul_mat | b:silu | c:copy ,mul_mat");
  const Device* const only[] = {&products, &products};
  EXPECT_ERROR(assign(graph, only), "no device can run silu x f32 [16, 3]");
}

// Devices with shared memory run one after the other, because no copy shows when a value may be overwritten.
TEST_F(ScheduleTest, DevicesThatShareMemoryWaitForOneAnother) {
  const SomeOpsDevice products("products", two_.device(0), [](const Node& n) { return n.op == Op::mul_mat; });
  const Device* const devices[] = {&products, &two_.device(0), &two_.device(1)};
  GraphBuilder b;
  Value x = b.input("x", DType::f32, {kN, 3});
  for (const OwnedTensor* w : {&a_, &a_, &b_, &a_}) x = b.silu(b.mul_mat(b.tensor(w->tensor), x));
  b.output(x, "y");
  ASSERT_OK_AND_ASSIGN(const Schedule made, make_schedule(std::move(b).finish().value(), devices, {}));
  std::vector<uint32_t> n_slices(3);
  for (const Slice& slice : made.slices) {
    if (slice.device < 2) {
      EXPECT_EQ(slice.ended[static_cast<size_t>(1 - slice.device)], n_slices[static_cast<size_t>(1 - slice.device)]);
    }
    ++n_slices[static_cast<size_t>(slice.device)];
  }
  EXPECT_GT(n_slices[0], 1u);
  EXPECT_GT(n_slices[1], 1u);
  EXPECT_FALSE(made.overlaps);
}

TEST_F(ScheduleTest, OnlySlicesOfDifferentDevicesOverlap) {
  const auto two_products = [&](const OwnedTensor& second) {
    GraphBuilder b;
    const Value x = b.input("x", DType::f32, {kN, 3});
    b.output(b.mul_mat(b.tensor(a_.tensor), x), "first");
    b.output(b.mul_mat(b.tensor(second.tensor), x), "second");
    return b;
  };
  const ScheduleOptions watched{.watch = [](const Graph& g, NodeId id) { return g[id].name == "first"; }};
  ASSERT_OK_AND_ASSIGN(const Schedule same, schedule(two_products(a_), watched));
  EXPECT_EQ(slices_of(same), "a:mul_mat | a:mul_mat");
  EXPECT_FALSE(same.overlaps);
  ASSERT_OK_AND_ASSIGN(const Schedule different, schedule(two_products(b_)));
  EXPECT_EQ(slices_of(different), "a:mul_mat | b:copy x,mul_mat");
  EXPECT_TRUE(different.overlaps);
}

// --- runs: the same bits on two devices as on one

TEST(TwoDevices, RandomGraphsWithRandomPinsAreTheSameBits) {
  GraphRunner one("", 1);
  const TwoDevices two(2);
  size_t n_slices = 0, n_overlapping = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const testing::RandomGraph random = testing::random_graph(seed, 40, false);
    Rng rng(seed);
    NamedBytes inputs;
    for (const auto& [name, shape] : random.inputs)
      inputs[name] = bytes_of(testing::random_values(rng, shape.n_elements()));
    std::vector<int> pins(static_cast<size_t>(random.graph.size()));
    for (int& pin : pins) pin = static_cast<int>(rng.next_u32() % 3) - 1;
    const ScheduleOptions options{.pin = [&](const Graph&, NodeId id) -> std::optional<int> {
      const int pin = pins[static_cast<size_t>(id)];
      return pin < 0 ? std::nullopt : std::optional(pin);
    }};
    ASSERT_OK_AND_ASSIGN(const NamedBytes expected, one.run(random.graph, inputs));
    ASSERT_OK_AND_ASSIGN(const NamedBytes outputs, run_once(two.executor(options), random.graph, inputs));
    ASSERT_EQ(outputs, expected) << "seed " << seed;
    // The duration of slices does not matter.
    Rng delays[] = {Rng(seed), Rng(seed + 1000)};
    const auto delay = [&delays](size_t i) {
      return [&rng_of_one = delays[i]] {
        std::this_thread::sleep_for(std::chrono::microseconds(rng_of_one.next_u32() % 100));
      };
    };
    HookedBackend a(two.backend(0), delay(0)), b(two.backend(1), delay(1));
    ASSERT_OK_AND_ASSIGN(const NamedBytes delayed, run_once(Executor({&a, &b}, options), random.graph, inputs));
    ASSERT_EQ(delayed, expected) << "seed " << seed;
    ASSERT_OK_AND_ASSIGN(const Schedule made, make_schedule(random.graph, two.devices(), options));
    n_slices += made.slices.size();
    n_overlapping += made.overlaps;
  }
  EXPECT_GT(n_slices, 600u);
  EXPECT_GT(n_overlapping, 30u);
}

// A tensor that changes on its own device is copied again for each slice that reads it on another device.
TEST(TwoDevices, WhatChangesInPlaceIsCopiedAnew) {
  const TwoDevices two;
  OwnedTensor sum(two.device(0).buffer_type(), "sum", DType::f32, {kN}, bytes_of(std::vector<float>(kN, 1)));
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN});
  const Value s = b.tensor(sum.tensor);
  const Value before = b.output(b.scale(s, 1), "before");
  const Value once = b.accumulate(s, x);
  const Value after = b.output(b.scale(once, 1), "after");
  b.output(b.add(before, after), "both");
  ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).finish());
  const ScheduleOptions options{.pin = [](const Graph& g, NodeId id) -> std::optional<int> {
    return g[id].op == Op::scale || g[id].op == Op::add ? std::optional(1) : std::nullopt;
  }};
  ASSERT_OK_AND_ASSIGN(const Schedule made, make_schedule(graph, two.devices(), options));
  EXPECT_EQ(slices_of(made), "b:copy sum,scale | a:accumulate | b:copy sum,scale,add");
  ASSERT_OK_AND_ASSIGN(const NamedBytes y,
                       run_once(two.executor(options), std::move(graph), {{"x", bytes_of(std::vector<float>(kN, 2))}}));
  EXPECT_EQ(y.at("before"), bytes_of(std::vector<float>(kN, 1)));
  EXPECT_EQ(y.at("after"), bytes_of(std::vector<float>(kN, 3)));
  EXPECT_EQ(y.at("both"), bytes_of(std::vector<float>(kN, 4)));
}

TEST(TwoDevices, MeasureIsWhatReserveAllocates) {
  const TwoDevices two(2);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = testing::random_graph(seed, 30, false).graph;
    const ScheduleOptions options{.pin = [](const Graph&, NodeId id) { return std::optional<int>(id % 2); }};
    Executor executor = two.executor(options);
    ASSERT_OK_AND_ASSIGN(const std::vector<ComputeBytes> bytes, executor.measure({&graph, 1}));
    ASSERT_EQ(bytes.size(), 2u);
    EXPECT_EQ(executor.reserved_bytes(), (std::vector<size_t>{0, 0}));
    ASSERT_OK(executor.reserve({&graph, 1}));
    EXPECT_EQ(executor.reserved_bytes(), (std::vector<size_t>{bytes[0].total(), bytes[1].total()}));
    EXPECT_OK(executor.prepare(graph));
  }
}

// Like BLAS: a device runs large products in the memory of another. Memory reserved for these also suffices for small
// ones, which run on the device of the memory.
TEST(TwoDevices, WhatADeviceTakesMayDependOnShapes) {
  const TwoDevices two;
  size_t n_runs = 0;
  const SomeOpsDevice large("large", two.device(0),
                            [](const Node& n) { return n.op == Op::mul_mat && n.spec.shape()[1] >= 32; });
  HookedBackend taker(
      two.backend(0), [&] { ++n_runs; }, &large);
  const OwnedTensor w(two.device(0).buffer_type(), "w", DType::q8_0, {256, 64}, Bytes(64 * 8 * 34));
  const auto graph_of = [&](int64_t n) {
    GraphBuilder b;
    const Value x = b.silu(b.input("x", DType::f32, {256, n}));
    b.output(b.silu(b.mul_mat(b.tensor(w.tensor), x)), "y");
    return std::move(b).finish().value();
  };
  Executor executor({&taker, &two.backend(0)}, {});
  const Graph largest = graph_of(64);
  ASSERT_OK(executor.reserve({&largest, 1}));
  for (const int64_t n : {64, 32, 31, 5, 1}) {
    n_runs = 0;
    ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph_of(n)));
    ASSERT_OK(run_with(executor, *prepared, {{"x", Bytes(static_cast<size_t>(256 * n) * sizeof(float))}}));
    EXPECT_EQ(n_runs, n >= 32 ? 1u : 0u);
  }
}

// --- watching

TEST(TwoDevices, WatchedValuesAreThoseOfARunThatKeepsAll) {
  GraphRunner one("", 1);
  const TwoDevices two;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const testing::RandomGraph shared = testing::random_graph(seed, 40, false);
    testing::RandomGraph apart = testing::random_graph(seed, 40, true);
    Rng rng(seed);
    NamedBytes inputs;
    for (const auto& [name, shape] : shared.inputs)
      inputs[name] = bytes_of(testing::random_values(rng, shape.n_elements()));
    std::vector<std::string> names;  // names of the watched values, by node
    for (const Node& node : apart.graph.nodes()) names.push_back(node.name);
    ASSERT_OK_AND_ASSIGN(const NamedBytes kept, one.run(std::move(apart.graph), inputs));
    ASSERT_OK_AND_ASSIGN(const NamedBytes expected, one.run(shared.graph, inputs));

    Executor executor = two.executor({.watch = [](const Graph&, NodeId id) { return id % 3 == 0; }});
    ASSERT_OK(executor.reserve({&shared.graph, 1}));
    ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(shared.graph));
    size_t n_seen = 0;
    const NodeObserver observe = [&](NodeId id, const Tensor& tensor) -> Result<> {
      Bytes bytes(span_bytes(tensor.dtype, tensor.layout));
      TESSERA_TRY(tensor.buffer->get(tensor, 0, bytes));
      EXPECT_EQ(bytes, kept.at(names[static_cast<size_t>(id)])) << "seed " << seed << ", node " << id;
      ++n_seen;
      return {};
    };
    ASSERT_OK_AND_ASSIGN(const NamedBytes outputs, run_with(executor, *prepared, inputs, observe));
    EXPECT_EQ(outputs, expected);
    EXPECT_GT(n_seen, 5u);
    const auto stop = [](NodeId, const Tensor&) -> Result<> { return fail(ErrorCode::cancelled, "seen enough"); };
    const auto stopped = executor.run(*prepared, {.observe = stop});
    EXPECT_ERROR(stopped, "seen enough");
  }
}

TEST(TwoDevices, ALogTellsEverySliceAndCopy) {
  const TwoDevices two;
  const Graph graph = testing::random_graph(3, 30, false).graph;
  Executor executor = two.executor({.pin = [](const Graph&, NodeId id) { return std::optional<int>(id / 8 % 2); }});
  ASSERT_OK(executor.reserve({&graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph));
  RunLog log;
  for (int run = 0; run < 2; ++run) ASSERT_OK(executor.run(*prepared, {.log = &log}));  // the log has only the last run
  const Schedule& schedule = prepared->schedule();
  ASSERT_EQ(log.slices.size(), schedule.slices.size());
  EXPECT_EQ(log.copies.size(), schedule.n_copies());
  EXPECT_GT(schedule.slices.size(), 2u);
  double ends[] = {0, 0};
  for (const RunLog::Slice& slice : log.slices) {
    double& end = ends[schedule.slices[slice.index].device];
    EXPECT_GE(slice.begin_us, end);
    end = slice.begin_us + slice.us;
  }
  for (const NodeTime& time : log.nodes) EXPECT_LT(time.node, schedule.graph.size());
}

// --- pipeline slots

// Runs a graph n_runs times, with one run per pipeline slot at a time, and returns the outputs of each run.
Result<std::vector<NamedBytes>> run_in_slots(Executor& executor, PreparedGraph& prepared, size_t n_runs,
                                             const std::function<NamedBytes(size_t)>& inputs) {
  std::vector<NamedBytes> outputs;
  const size_t n_slots = prepared.n_pipeline_slots();
  for (size_t run = 0; run < n_runs + n_slots; ++run) {
    const size_t slot = run % n_slots;
    TESSERA_TRY(executor.wait(slot));
    if (run >= n_slots) {
      TESSERA_ASSIGN(outputs.emplace_back(), outputs_of(prepared, slot));
    }
    if (run >= n_runs) continue;
    TESSERA_TRY(set_inputs(prepared, inputs(run), slot));
    TESSERA_TRY(executor.start(prepared, {.pipeline_slot = slot}));
  }
  return outputs;
}

// run() and start() read the inputs of their slot, and a log or an observer gets its values.
TEST(PipelineSlots, EachRunHasTheValuesOfItsSlot) {
  const TwoDevices two;
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN});
  const Value h = b.scale(x, 2.0f);
  b.output(b.scale(h, 5.0f), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  Executor executor = two.executor({.pin = [](const Graph&, NodeId id) { return std::optional<int>(id % 2); },
                                    .watch = [&](const Graph&, NodeId id) { return id == h.id(); }},
                                   2);
  ASSERT_OK(executor.reserve({&graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph, 2));
  const auto filled = [](float value) { return bytes_of(std::vector<float>(kN, value)); };
  for (const size_t slot : {0, 1})
    ASSERT_OK(set_inputs(*prepared, {{"x", filled(1.0f + static_cast<float>(slot))}}, slot));
  for (const size_t slot : {1, 0}) {
    const float value = 1.0f + static_cast<float>(slot);
    Bytes observed(kN * sizeof(float));
    const NodeObserver observe = [&](NodeId id, const Tensor& tensor) {
      EXPECT_EQ(id, h.id());
      return tensor.buffer->get(tensor, 0, observed);
    };
    ASSERT_OK(executor.run(*prepared, {.pipeline_slot = slot, .observe = observe}));
    EXPECT_EQ(observed, filled(2 * value));
    ASSERT_OK_AND_ASSIGN(const NamedBytes outputs, outputs_of(*prepared, slot));
    EXPECT_EQ(outputs.at("y"), filled(10 * value));
    RunLog log;
    ASSERT_OK(executor.start(*prepared, {.pipeline_slot = slot, .log = &log}));
    ASSERT_OK(executor.wait(slot));
    EXPECT_EQ(log.slices.size(), prepared->schedule().slices.size());
  }
}

// Each layer adds in place to a tensor of its own device, and a later run reads the results of earlier runs.
TEST(PipelineSlots, RunsThatOverlapSeeThoseBeforeThem) {
  const TwoDevices two;
  const std::vector<float> zeros(kN * kN, 0.0f);
  OwnedTensor first(two.device(0).buffer_type(), "first", DType::f32, {kN, kN}, bytes_of(zeros));
  OwnedTensor second(two.device(1).buffer_type(), "second", DType::f32, {kN, kN}, bytes_of(zeros));
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN, kN});
  const Value h = b.accumulate(b.tensor(first.tensor), x);
  Value y = b.accumulate(b.tensor(second.tensor), b.mul_mat(h, x));
  for (int i = 0; i < 20; ++i) y = b.silu(b.mul_mat(y, y));  // keeps the second device busy
  b.output(y, "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  constexpr size_t kRuns = 30;
  std::vector<NamedBytes> expected;
  for (const size_t n_slots : {1, 2, 3}) {
    ASSERT_OK(first.tensor.buffer->set(first.tensor, 0, bytes_of(zeros)));
    ASSERT_OK(second.tensor.buffer->set(second.tensor, 0, bytes_of(zeros)));
    Executor executor = two.executor({}, n_slots);
    ASSERT_OK(executor.reserve({&graph, 1}));
    ASSERT_OK_AND_ASSIGN(const std::vector<ComputeBytes> bytes, executor.measure({&graph, 1}));
    EXPECT_EQ(executor.reserved_bytes(), (std::vector<size_t>{bytes[0].total(), bytes[1].total()}));
    ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph, n_slots));
    ASSERT_EQ(prepared->schedule().slices.size(), 2u);
    ASSERT_EQ(prepared->n_pipeline_slots(), n_slots);
    ASSERT_OK_AND_ASSIGN(const auto outputs, run_in_slots(executor, *prepared, kRuns, [](size_t run) {
                           Rng rng(run);
                           return NamedBytes{{"x", bytes_of(testing::random_values(rng, kN * kN))}};
                         }));
    if (n_slots == 1) expected = outputs;
    EXPECT_EQ(outputs, expected) << n_slots << " slots";
  }
}

// The second device makes a late copy of a tensor that the first changes in place. The next run must not have changed
// it by then.
TEST(PipelineSlots, AStateThatIsCopiedIsThatOfItsRun) {
  const TwoDevices two;
  HookedBackend late(two.backend(1), [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  OwnedTensor state(two.device(0).buffer_type(), "state", DType::f32, {kN}, bytes_of(std::vector<float>(kN)));
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN});
  const Value own = b.silu(x);
  b.output(b.add(b.accumulate(b.tensor(state.tensor), x), own), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  const ScheduleOptions options{.pin = [](const Graph& g, NodeId id) -> std::optional<int> {
    return g[id].op == Op::accumulate ? std::nullopt : std::optional(1);
  }};
  constexpr size_t kRuns = 12;
  std::vector<NamedBytes> expected;
  for (const size_t n_slots : {1, 2, 3}) {
    ASSERT_OK(state.tensor.buffer->set(state.tensor, 0, bytes_of(std::vector<float>(kN))));
    Executor executor({&two.backend(0), &late}, options, n_slots);
    ASSERT_OK(executor.reserve({&graph, 1}));
    ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph, n_slots));
    EXPECT_TRUE(prepared->schedule().copies_state);
    ASSERT_OK_AND_ASSIGN(const auto outputs, run_in_slots(executor, *prepared, kRuns, [](size_t run) {
                           return NamedBytes{{"x", bytes_of(std::vector<float>(kN, 1.0f + static_cast<float>(run)))}};
                         }));
    if (n_slots == 1) expected = outputs;
    EXPECT_EQ(outputs, expected) << n_slots << " slots";
  }
}

TEST(PipelineSlots, AnErrorIsOfItsRunAlone) {
  const TwoDevices two;
  OwnedTensor table(two.device(0).buffer_type(), "table", DType::f32, {kN, 4},
                    bytes_of(std::vector<float>(4 * kN, 1.0f)));
  GraphBuilder b;
  const Value rows = b.get_rows(b.tensor(table.tensor), b.input("ids", DType::i32, {1}));
  b.output(b.silu(b.silu(rows)), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  const auto pin = [](const Graph& g, NodeId id) { return std::optional<int>(g[id].op == Op::get_rows ? 0 : 1); };
  Executor executor = two.executor({.pin = pin}, 2);
  ASSERT_OK(executor.reserve({&graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph, 2));
  ASSERT_EQ(prepared->schedule().slices.size(), 2u);
  ASSERT_OK(set_inputs(*prepared, {{"ids", bytes_of(std::vector<int32_t>{4})}}, 0));
  ASSERT_OK(set_inputs(*prepared, {{"ids", bytes_of(std::vector<int32_t>{3})}}, 1));
  ASSERT_OK(executor.start(*prepared, {.pipeline_slot = 0}));
  ASSERT_OK(executor.start(*prepared, {.pipeline_slot = 1}));
  EXPECT_ERROR(executor.wait(0), "row 4, want 0 to 3");
  EXPECT_OK(executor.wait(1));
  EXPECT_OK(executor.wait(0));  // no run is active
  CancelToken cancel;
  cancel.cancel();
  ASSERT_OK(executor.start(*prepared, {.pipeline_slot = 1, .cancel = &cancel}));
  EXPECT_EQ(executor.wait(1).error().code(), ErrorCode::cancelled);
}

// A run on either device does not read changes made after start().
TEST(PipelineSlots, SnapshotsAreOfTheBegin) {
  const TwoDevices two;
  OwnedTensor table(two.device(0).buffer_type(), "table", DType::f32, {kN}, bytes_of(std::vector<float>(kN, 1)));
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {kN});
  const Value t = b.tensor(table.tensor);
  b.output(b.add(b.add(x, t), t), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  for (const bool is_snapshot : {false, true}) {
    ScheduleOptions options{.pin = [](const Graph&, NodeId id) { return std::optional<int>(id % 2); }};
    if (is_snapshot) options.snapshot = [](const Tensor& tensor) { return tensor.name == "table"; };
    Executor executor = two.executor(options);
    ASSERT_OK(executor.reserve({&graph, 1}));
    ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph));
    EXPECT_EQ(prepared->schedule().snapshots.size(), is_snapshot ? 2u : 0u);
    for (const float value : {2.0f, 5.0f}) {
      ASSERT_OK(table.tensor.buffer->set(table.tensor, 0, bytes_of(std::vector<float>(kN, value))));
      ASSERT_OK(set_inputs(*prepared, {{"x", bytes_of(std::vector<float>(kN, 1))}}));
      ASSERT_OK(executor.start(*prepared, {.pipeline_slot = 0}));
      if (is_snapshot) ASSERT_OK(table.tensor.buffer->set(table.tensor, 0, bytes_of(std::vector<float>(kN, 100))));
      ASSERT_OK(executor.wait(0));
      ASSERT_OK_AND_ASSIGN(const NamedBytes outputs, outputs_of(*prepared));
      EXPECT_EQ(outputs.at("y"), bytes_of(std::vector<float>(kN, 1 + 2 * value)));
    }
  }
}

}  // namespace
}  // namespace tessera
