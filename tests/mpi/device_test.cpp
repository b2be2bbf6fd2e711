// Devices of other ranks: the same bits as the CPU, memory, and what happens if a worker fails.
#include "tessera/mpi/device.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/mpi/cluster.h"
#include "tests/support/graph_runner.h"
#include "tests/support/random_graph.h"

namespace tessera {
namespace {

using namespace testing;
using std::chrono::milliseconds;

// Runs a graph on devices, with the last one for what the others cannot run.
Result<NamedBytes> run_on(const std::vector<const Device*>& devices, Graph graph, const NamedBytes& inputs,
                          const ScheduleOptions& options = {}, const CancelToken* cancel = nullptr) {
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<Backend*> pointers;
  for (const Device* device : devices) {
    TESSERA_ASSIGN(auto backend, device->create_backend({.threads = {.n_threads = 2}}));
    pointers.push_back(backend.get());
    backends.push_back(std::move(backend));
  }
  Executor executor(pointers, options);
  TESSERA_TRY(executor.reserve({&graph, 1}));
  TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
  TESSERA_TRY(set_inputs(*prepared, inputs));
  TESSERA_TRY(executor.run(*prepared, {.cancel = cancel}));
  return outputs_of(*prepared);
}

NamedBytes random_inputs(const RandomGraph& random, uint64_t seed) {
  Rng rng(seed);
  NamedBytes inputs;
  for (const auto& [name, shape] : random.inputs) inputs[name] = bytes_of(random_values(rng, shape.n_elements()));
  return inputs;
}

TEST(MpiDevice, RandomGraphsHaveTheBitsOfTheCpu) {
  Cluster cluster;
  ASSERT_OK(cluster.connect());
  const auto cpu = scalar_cpu();
  for (uint64_t seed = 0; seed < all_or_few<uint64_t>(20, 5); ++seed) {
    const RandomGraph random = random_graph(seed, 40, false);
    const NamedBytes inputs = random_inputs(random, seed);
    ASSERT_OK_AND_ASSIGN(const NamedBytes expected, run_on({cpu.get()}, random.graph, inputs));
    ASSERT_OK_AND_ASSIGN(const NamedBytes got, run_on({&cluster.device()}, random.graph, inputs));
    EXPECT_EQ(got, expected) << "seed " << seed;
  }
  EXPECT_OK(cluster.close());
}

// Nodes alternate between two workers and the CPU of rank 0, so values travel in all directions.
TEST(MpiDevice, WorkersAndTheCpuShareAGraph) {
  Cluster cluster({.network = {.n_ranks = 3, .latency = std::chrono::microseconds(50)}});
  ASSERT_OK(cluster.connect());
  ASSERT_EQ(cluster.devices().size(), 2u);
  EXPECT_EQ(cluster.device(0).name(), "mpi:1");
  EXPECT_EQ(cluster.device(1).name(), "mpi:2");
  const auto cpu = scalar_cpu();
  const ScheduleOptions options{.pin = [](const Graph&, NodeId id) { return std::optional<int>(id % 3); }};
  for (uint64_t seed = 0; seed < all_or_few<uint64_t>(8, 3); ++seed) {
    const RandomGraph random = random_graph(seed, 25, false);
    const NamedBytes inputs = random_inputs(random, seed);
    ASSERT_OK_AND_ASSIGN(const NamedBytes expected, run_on({cpu.get()}, random.graph, inputs));
    ASSERT_OK_AND_ASSIGN(const NamedBytes got,
                         run_on({&cluster.device(0), &cluster.device(1), cpu.get()}, random.graph, inputs, options));
    EXPECT_EQ(got, expected) << "seed " << seed;
  }
  EXPECT_OK(cluster.close(2));
}

// A layer with a cache: a product with packed weights, tokens that are stored, attention to what is stored.
Result<NamedBytes> run_attention(const Device& device) {
  Rng rng(5);
  constexpr int64_t kDim = 8, kHeadsKv = 2, kHeads = 4, kTokens = 70, kBlocks = 3, kWidth = kDim * kHeads;
  const auto in = [&](int64_t n) { return bytes_of(random_values(rng, n)); };
  const OwnedTensor weights(device.weight_buffer_type(Op::mul_mat, DType::f32, {kWidth, kWidth}), "w", DType::f32,
                            {kWidth, kWidth}, in(kWidth * kWidth));
  const Shape cache{kDim, 64, kHeadsKv, kBlocks};
  const Bytes zeros(nbytes(DType::f16, cache).value());
  const OwnedTensor k(device.buffer_type(), "k", DType::f16, cache, zeros);
  const OwnedTensor v(device.buffer_type(), "v", DType::f16, cache, zeros);
  std::vector<int32_t> positions, cells;
  const std::vector<int32_t> blocks = {2, 0};
  std::vector<uint64_t> valid = {0, 0};
  for (int32_t i = 0; i < kTokens; ++i) {
    positions.push_back(i);
    cells.push_back(blocks[static_cast<size_t>(i / 64)] * 64 + i % 64);
    valid[static_cast<size_t>(i / 64)] |= uint64_t{1} << i % 64;
  }
  const NamedBytes inputs{{"x", in(kWidth * kTokens)},
                          {"k_rows", in(kDim * kHeadsKv * kTokens)},
                          {"v_rows", in(kDim * kHeadsKv * kTokens)},
                          {"cells", bytes_of(cells)},
                          {"positions", bytes_of(positions)},
                          {"slots", bytes_of(std::vector<int32_t>(kTokens, 0))},
                          {"blocks", bytes_of(blocks)},
                          {"valid", bytes_of(valid)}};
  GraphBuilder b;
  const auto rows = [&](const char* name) { return b.input(name, DType::f32, {kDim, kHeadsKv, kTokens}); };
  const Value where = b.input("cells", DType::i32, {kTokens});
  const Value q = b.mul_mat(b.tensor(weights.tensor), b.input("x", DType::f32, {kWidth, kTokens}));
  const Value stored_k = b.kv_store(b.tensor(k.tensor), rows("k_rows"), where, KvSide::k);
  const Value stored_v = b.kv_store(b.tensor(v.tensor), rows("v_rows"), where, KvSide::v);
  const Value y = b.paged_attention(b.reshape(q, {kDim, kHeads, kTokens}), stored_k, stored_v,
                                    b.input("positions", DType::i32, {kTokens}),
                                    b.input("slots", DType::i32, {kTokens}), b.input("blocks", DType::i32, {2, 1}),
                                    b.input("valid", DType::i64, {2, 1}), {}, {.scale = 0.35f});
  b.output(y, "y");
  TESSERA_ASSIGN(Graph graph, std::move(b).finish());
  TESSERA_ASSIGN(NamedBytes outputs, run_on({&device}, std::move(graph), inputs));
  outputs["k"] = k.read();
  outputs["v"] = v.read();
  outputs["w"] = weights.read();
  return outputs;
}

TEST(MpiDevice, AttentionOverACacheHasTheBitsOfTheCpu) {
  Cluster cluster;
  ASSERT_OK(cluster.connect());
  ASSERT_OK_AND_ASSIGN(const NamedBytes expected, run_attention(*scalar_cpu()));
  ASSERT_OK_AND_ASSIGN(const NamedBytes got, run_attention(cluster.device()));
  EXPECT_EQ(got, expected);
}

TEST(MpiDevice, AnswersLikeItsTwin) {
  Cluster cluster({.devices = {scalar_cpu, [] { return std::make_unique<FakeDevice>(FakeDevice::Options{}); }}});
  ASSERT_OK(cluster.connect());
  ASSERT_EQ(cluster.devices().size(), 2u);
  const Device &cpu = cluster.device(0), &fake = cluster.device(1);
  EXPECT_EQ(cpu.name(), "mpi:1/cpu");
  EXPECT_EQ(fake.name(), "mpi:1/fake:0");
  EXPECT_EQ(fake.description(), "a fake on host1");
  EXPECT_EQ(cpu.kind(), DeviceKind::accelerator);
  EXPECT_GT(cpu.memory().total_bytes, 0u);
  EXPECT_EQ(fake.memory().total_bytes, uint64_t{1} << 40);
  const auto twin = scalar_cpu();
  EXPECT_EQ(cpu.buffer_types().size(), twin->buffer_types().size());
  const Shape shape{64, 40};
  const BufferType& weights = cpu.weight_buffer_type(Op::mul_mat, DType::q8_0, shape);
  const BufferType& twins = twin->weight_buffer_type(Op::mul_mat, DType::q8_0, shape);
  EXPECT_EQ(weights.name(), "mpi:1/cpu/" + std::string(twins.name()));
  EXPECT_EQ(weights.tensor_bytes(DType::q8_0, shape).value(), twins.tensor_bytes(DType::q8_0, shape).value());
  EXPECT_EQ(cpu.supports_kv(DType::q8_k, KvSide::k, 64), twin->supports_kv(DType::q8_k, KvSide::k, 64));
  EXPECT_TRUE(cpu.supports_kv(DType::f16, KvSide::k, 64));
  EXPECT_FALSE(cpu.can_use(fake.buffer_type()));
  // A product with packed weights in memory of this device, of another one, and of none.
  const auto supports = [&](const BufferType* type, Op op) {
    Tensor tensor{{DType::q8_0, contiguous_layout(DType::q8_0, shape).value()}, "w", type};
    GraphBuilder b;
    const Value w = b.tensor(tensor);
    op == Op::mul_mat ? b.mul_mat(w, b.input("x", DType::f32, {64, 3})) : b.cast(w, DType::f32);
    const Graph graph = std::move(b).finish().value();
    return cpu.supports(graph, graph.size() - 1);
  };
  EXPECT_TRUE(supports(&weights, Op::mul_mat));
  EXPECT_TRUE(supports(nullptr, Op::mul_mat));
  EXPECT_TRUE(supports(&cpu.buffer_type(), Op::cast));
  EXPECT_FALSE(supports(&weights, Op::cast));  // of panels, only products and looked-up rows
}

TEST(MpiDevice, MemoryIsSetReadCopiedAndCleared) {
  Cluster cluster;
  ASSERT_OK(cluster.connect());
  const BufferType& type = cluster.device().buffer_type();
  Rng rng(3);
  const Shape shape{100, 31};
  const Bytes data = bytes_of(random_values(rng, shape.n_elements()));
  const OwnedTensor a(type, "a", DType::f32, shape, data), b(type, "b", DType::f32, shape, {});
  EXPECT_EQ(b.read(), Bytes(data.size()));  // new memory is zeroed
  EXPECT_EQ(a.read(), data);
  ASSERT_OK(b.buffer->copy(a.tensor, b.tensor));
  EXPECT_EQ(b.read(), data);
  ASSERT_OK(b.buffer->set(b.tensor, 8, std::span(data).first(4)));
  Bytes changed = data;
  std::copy_n(data.begin(), 4, changed.begin() + 8);
  EXPECT_EQ(b.read(), changed);
  ASSERT_OK(b.buffer->clear(std::byte{7}));
  EXPECT_EQ(b.read(), Bytes(data.size(), std::byte{7}));
  ASSERT_OK(b.buffer->reset());
  EXPECT_EQ(b.read(), Bytes(data.size()));
  // Memory of the host, in both directions.
  const auto cpu = scalar_cpu();
  const OwnedTensor here(cpu->buffer_type(), "here", DType::f32, shape, {});
  ASSERT_OK(here.buffer->copy(a.tensor, here.tensor));
  EXPECT_EQ(here.read(), data);
  ASSERT_OK(b.buffer->copy(here.tensor, b.tensor));
  EXPECT_EQ(b.read(), data);
  Bytes four(4);
  EXPECT_ERROR(a.buffer->get(a.tensor, data.size() - 3, four), "mpi:1 (host1): tensor a: bytes 12397 to 12401");
  Tensor beyond = a.tensor;
  beyond.offset = 64;
  EXPECT_ERROR(a.buffer->get(beyond, 0, four), "a: bytes 64 to 12464 of a buffer of 12400");
  EXPECT_ERROR(cluster.device().wrap_host({}), "has no use for the host's memory");
}

// The recorder of rank 0's network would see the bytes if they passed through it.
TEST(MpiDevice, CopiesBetweenWorkersDoNotPassThroughRank0) {
  Cluster cluster({.network = {.n_ranks = 3}});
  ASSERT_OK(cluster.connect());
  Rng rng(4);
  const Shape shape{500, 40};
  const Bytes data = bytes_of(random_values(rng, shape.n_elements()));
  const OwnedTensor a(cluster.device(0).buffer_type(), "a", DType::f32, shape, data),
      b(cluster.device(1).buffer_type(), "b", DType::f32, shape, {}),
      other(cluster.device(1).buffer_type(), "other", DType::f32, {500, 39}, {});
  const uint64_t n_to_0 = cluster.network().n_sent(1, 0), n_between = cluster.network().n_sent(1, 2);
  ASSERT_OK(b.buffer->copy(a.tensor, b.tensor));
  EXPECT_GE(cluster.network().n_sent(1, 2) - n_between, data.size() / testing::kPatientLink.frame_bytes);
  EXPECT_LT(cluster.network().n_sent(1, 0) - n_to_0, 20u);  // an answer and signs of life
  EXPECT_EQ(b.read(), data);
  EXPECT_ERROR(other.buffer->copy(a.tensor, other.tensor), "copy of a f32 [500, 40] to other f32 [500, 39]");
  // The receiver waits in vain, and is told so.
  Tensor beyond = a.tensor;
  beyond.offset = 64;
  EXPECT_ERROR(b.buffer->copy(beyond, b.tensor), "mpi:1 (host1): a: bytes 64 to 80064 of a buffer of 80000");
  ASSERT_OK(b.buffer->copy(a.tensor, b.tensor));
}

// The receiver is there and waits for bytes that nobody sends any more: of a sender that is lost before it has
// answered, and of one that has answered.
TEST(MpiDevice, CopiesFromASilentWorkerAreErrors) {
  Cluster cluster({.network = {.n_ranks = 3}, .link = {.heartbeat = milliseconds(20), .timeout = milliseconds(3000)}});
  ASSERT_OK(cluster.connect());
  const OwnedTensor a(cluster.device(0).buffer_type(), "a", DType::f32, {64}, {}),
      b(cluster.device(1).buffer_type(), "b", DType::f32, {64}, {});
  EXPECT_OK(b.buffer->copy(a.tensor, b.tensor));
  const mpi::WireTensor to{.spec = mpi::to_wire(b.tensor), .name = "b", .buffer = 1, .offset = 0};
  ASSERT_OK_AND_ASSIGN(const uint64_t waiting, cluster.client().start(2, mpi::ReceiveCopyRequest{to, 1, 77}));
  cluster.network().silence(1);
  EXPECT_ERROR(b.buffer->copy(a.tensor, b.tensor), "mpi:1 (host1): no sign of life for ");
  EXPECT_ERROR(cluster.client().finish(waiting), "mpi:1: no sign of life for ");  // as the receiver says
  EXPECT_ERROR(cluster.client().ask<mpi::DoneAnswer>(2, mpi::ReceiveCopyRequest{to, 1, 78}), "mpi:1: no sign of life");
  EXPECT_OK(b.buffer->clear(std::byte{1}));
}

// Two workers that send to each other at the same time must not wait for each other.
TEST(MpiDevice, CopiesInBothDirectionsAtATime) {
  Cluster cluster({.network = {.n_ranks = 3}});
  ASSERT_OK(cluster.connect());
  const Shape shape{300, 10};
  const Bytes ones(12000, std::byte{1}), twos(12000, std::byte{2});
  const OwnedTensor a1(cluster.device(0).buffer_type(), "a1", DType::f32, shape, ones),
      a2(cluster.device(0).buffer_type(), "a2", DType::f32, shape, {}),
      b1(cluster.device(1).buffer_type(), "b1", DType::f32, shape, {}),
      b2(cluster.device(1).buffer_type(), "b2", DType::f32, shape, twos);
  const auto repeat = [](const OwnedTensor& from, const OwnedTensor& to) {
    for (int i = 0; i < 50; ++i) EXPECT_OK(to.buffer->copy(from.tensor, to.tensor));
  };
  std::thread forth([&] { repeat(a1, b1); }), back([&] { repeat(b2, a2); });
  forth.join();
  back.join();
  EXPECT_EQ(b1.read(), ones);
  EXPECT_EQ(a2.read(), twos);
}

TEST(MpiDevice, PiecesOfALargeTensorArriveWhole) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  Cluster cluster({.link = {.heartbeat = milliseconds(20), .timeout = std::chrono::minutes(2)}});
  ASSERT_OK(cluster.connect());
  const Shape shape{1000, 10000};  // of 16 MiB: three pieces
  std::vector<float> values(static_cast<size_t>(shape.n_elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  for (const BufferType* type :
       {&cluster.device().buffer_type(), &cluster.device().weight_buffer_type(Op::mul_mat, DType::f32, shape)}) {
    const OwnedTensor tensor(*type, "large", DType::f32, shape, bytes_of(values));
    EXPECT_TRUE(tensor.read() == bytes_of(values)) << type->name();
  }
}

TEST(MpiDevice, AWorkerOutOfMemoryIsAnErrorThatNamesIt) {
  const auto small = [] { return std::make_unique<FakeDevice>(FakeDevice::Options{.limit_bytes = 1000}); };
  Cluster cluster({.devices = {small}});
  ASSERT_OK(cluster.connect());
  const BufferType& type = cluster.device().buffer_type();
  ASSERT_OK_AND_ASSIGN(auto first, type.allocate(600, BufferUsage::any));
  const auto second = type.allocate(600, BufferUsage::any);
  EXPECT_ERROR(second, "mpi:1 (host1): fake:0: 600 bytes wanted, 600 of 1000 are taken");
  EXPECT_EQ(second.error().code(), ErrorCode::out_of_memory);
  EXPECT_EQ(cluster.device().memory().free_bytes, 400u);
  first.reset();
  EXPECT_OK(type.allocate(600, BufferUsage::any));
}

TEST(MpiDevice, PeakRatesAreThoseOfTheWorker) {
  const auto fake = [] {
    return std::make_unique<FakeDevice>(
        FakeDevice::Options{.peaks = {.int8_gmacs = 4, .f32_gmacs = 3, .int16_gmacs = 2, .read_gbps = 1}});
  };
  Cluster cluster({.devices = {fake}});
  ASSERT_OK(cluster.connect());
  ASSERT_OK_AND_ASSIGN(const DevicePeaks peaks, cluster.device().measure_peaks({}));
  EXPECT_EQ(peaks.int8_gmacs, 4);
  EXPECT_EQ(peaks.f32_gmacs, 3);
  EXPECT_EQ(peaks.int16_gmacs, 2);
  EXPECT_EQ(peaks.read_gbps, 1);
}

TEST(MpiDevice, OtherBuildsAreRefused) {
  Cluster cluster;
  const auto refused = cluster.connect("other");
  EXPECT_ERROR(refused, "version test on host1, other on ");
  EXPECT_EQ(refused.error().code(), ErrorCode::mismatch);
  mpi::Identity here = mpi::own_identity("1"), there = here;
  ++there.tables;
  EXPECT_ERROR(mpi::require_same(here, there), "different operations or types, with the same version 1");
  EXPECT_OK(mpi::require_same(here, here));
}

TEST(MpiDevice, AnotherInstructionSetIsRefused) {
  bool is_worker = true;  // rank 0 makes its twin after the worker has made its device
  Cluster cluster({.devices = {[&]() -> std::unique_ptr<Device> {
                     if (std::exchange(is_worker, false)) return scalar_cpu();
                     return std::make_unique<FakeDevice>(FakeDevice::Options{});
                   }}});
  EXPECT_ERROR(cluster.connect(), "mpi:1 (host1) computes with scalar, rank 0 with ");
}

TEST(MpiDevice, ErrorsOfARunAreTheWorkers) {
  Cluster cluster;
  ASSERT_OK(cluster.connect());
  const OwnedTensor table(cluster.device().buffer_type(), "t", DType::f32, {8, 4}, Bytes(128));
  GraphBuilder b;
  b.output(b.get_rows(b.tensor(table.tensor), b.input("ids", DType::i32, {1})), "y");
  const Graph graph = std::move(b).finish().value();
  const auto failed = run_on({&cluster.device()}, graph, {{"ids", bytes_of(std::vector<int32_t>{4})}});
  EXPECT_ERROR(failed, "mpi:1 (host1): get_rows y: row 4, want 0 to 3");
  EXPECT_EQ(failed.error().code(), ErrorCode::invalid_argument);
  EXPECT_OK(run_on({&cluster.device()}, graph, {{"ids", bytes_of(std::vector<int32_t>{3})}}));
}

TEST(MpiDevice, NodesTellTheirTimes) {
  Cluster cluster;
  ASSERT_OK(cluster.connect());
  const RandomGraph random = random_graph(1, 20, false);
  ASSERT_OK_AND_ASSIGN(const auto backend, cluster.device().create_backend({}));
  Executor executor(*backend);
  ASSERT_OK(executor.reserve({&random.graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(random.graph));
  ASSERT_OK(set_inputs(*prepared, random_inputs(random, 1)));
  RunLog log;
  ASSERT_OK(executor.run(*prepared, {.log = &log}));
  EXPECT_FALSE(log.nodes.empty());
  for (const NodeTime& time : log.nodes) EXPECT_TRUE(random.graph[time.node].is_work());
}

// A graph of many products, which takes far longer than a message.
Graph long_graph(int n_products) {
  GraphBuilder b;
  Value x = b.input("x", DType::f32, {256, 256});
  for (int i = 0; i < n_products; ++i) x = b.soft_max(b.mul_mat(x, x));
  b.output(x, "y");
  return std::move(b).finish().value();
}

TEST(MpiDevice, ACancelledRunEnds) {
  Cluster cluster;
  ASSERT_OK(cluster.connect());
  CancelToken cancel;
  cancel.cancel();
  const auto run =
      run_on({&cluster.device()}, long_graph(all_or_few(2000, 200)), {{"x", Bytes(256 * 256 * 4)}}, {}, &cancel);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code(), ErrorCode::cancelled) << run.error().message();
  // The worker is as usable as before.
  EXPECT_OK(run_on({&cluster.device()}, long_graph(1), {{"x", Bytes(256 * 256 * 4)}}));
}

TEST(MpiDevice, AWorkerThatEndsIsAnError) {
  Cluster cluster;
  ASSERT_OK(cluster.connect());
  ASSERT_OK_AND_ASSIGN(const auto buffer, cluster.device().buffer_type().allocate(64, BufferUsage::any));
  cluster.stop_worker(1);
  EXPECT_ERROR(buffer->clear(std::byte{0}), "mpi:1 (host1) has ended");
  EXPECT_ERROR(run_on({&cluster.device()}, long_graph(1), {}), "mpi:1 (host1) has ended");
  EXPECT_EQ(cluster.device().memory().total_bytes, 0u);
}

TEST(MpiDevice, AWorkerThatEndsDuringARunIsAnError) {
  Cluster cluster;
  ASSERT_OK(cluster.connect());
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(20));
    cluster.stop_worker(1);
  });
  for (Result<> run; run;) {
    auto outputs = run_on({&cluster.device()}, long_graph(20), {{"x", Bytes(256 * 256 * 4)}});
    if (outputs) continue;
    run = forward_error(outputs);
    const bool is_told = run.error().message().find("cancelled") != std::string::npos ||
                         run.error().message().find("mpi:1 (host1) has ended") != std::string::npos;
    EXPECT_TRUE(is_told) << run.error().message();
  }
  stopper.join();
}

TEST(MpiDevice, ASilentWorkerIsAnError) {
  Cluster cluster({.link = {.heartbeat = milliseconds(20), .timeout = milliseconds(3000)}});
  ASSERT_OK(cluster.connect());
  ASSERT_OK_AND_ASSIGN(const auto buffer, cluster.device().buffer_type().allocate(64, BufferUsage::any));
  cluster.network().silence(1);
  EXPECT_ERROR(buffer->clear(std::byte{0}), "mpi:1 (host1): no sign of life for 3");
  EXPECT_ERROR(buffer->clear(std::byte{0}), "mpi:1 (host1): no sign of life for 3");
  // The worker hears that it was given up.
  EXPECT_ERROR(cluster.close(), "rank 0 gave up: mpi:1 (host1): no sign of life for 3");
}

TEST(MpiDevice, AWorkerEndsIfRankZeroIsSilent) {
  Cluster cluster({.link = {.heartbeat = milliseconds(20), .timeout = milliseconds(3000)}});
  ASSERT_OK(cluster.connect());
  cluster.network().silence(0);
  EXPECT_ERROR(cluster.close(), "rank 0: no sign of life for 3");
}

// --- faults of the network

Result<NamedBytes> conversation(Cluster& cluster) {
  TESSERA_TRY(cluster.connect());
  const RandomGraph random = random_graph(2, 10, false);
  return run_on({&cluster.device()}, random.graph, random_inputs(random, 2));
}

TEST(MpiDevice, AFaultAtAnyMessageIsAnErrorOrHasNoEffect) {
  using Kind = mpi::NetworkFault::Kind;
  mpi::LinkOptions link = kPatientLink;
  link.timeout = milliseconds(3000);
  Cluster without({.link = link});
  ASSERT_OK_AND_ASSIGN(const NamedBytes expected, conversation(without));
  const uint64_t n_messages = std::max(without.network().n_sent(0, 1), without.network().n_sent(1, 0));
  ASSERT_OK(without.close());
  int n_errors = 0, n_right = 0;
  const uint64_t step = std::max<uint64_t>(1, n_messages / all_or_few<uint64_t>(12, 4));
  for (const Kind kind : {Kind::drop, Kind::delay, Kind::duplicate, Kind::truncate})
    for (const int from : {0, 1})
      for (uint64_t k = 0; k < n_messages; k += step) {
        Cluster cluster(
            {.network =
                 {.n_ranks = 2,
                  .faults = {{.kind = kind, .from = from, .to = 1 - from, .message = k, .delay = milliseconds(3)}}},
             .link = link});
        const auto got = conversation(cluster);
        if (got) {
          EXPECT_EQ(*got, expected);
        }
        EXPECT_TRUE(got || kind != Kind::delay) << got.error().message();
        ++(got ? n_right : n_errors);
        cluster.close();  // neither side hangs
      }
  EXPECT_GT(n_errors, 0);
  EXPECT_GT(n_right, 0);
}

}  // namespace
}  // namespace tessera
