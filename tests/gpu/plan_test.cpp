// Compiled graphs: they use exactly the planned memory, share it, and report the times of their nodes.
#include <cstdlib>

#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

using GpuPlans = GpuTest;

// A chain of scales: y = x * factor^n.
struct Chain {
  Graph graph;
  NodeId x, y;
};
Chain chain_of(int n_steps, float factor, int64_t n_elements) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {n_elements});
  Value y = x;
  for (int i = 0; i < n_steps; ++i) y = b.scale(y, factor);
  y = b.output(y, "y");
  return {std::move(b).finish().value(), x.id(), y.id()};
}

Result<float> run_chain(Executor& executor, PreparedGraph& prepared, const Chain& chain, float x) {
  const Tensor &from = prepared.tensor(chain.x), &to = prepared.tensor(chain.y);
  const std::vector<float> values(static_cast<size_t>(from.shape().n_elements()), x);
  TESSERA_TRY(from.buffer->set(from, 0, std::as_bytes(std::span(values))));
  TESSERA_TRY(executor.run(prepared));
  float y = 0;
  TESSERA_TRY(to.buffer->get(to, 0, std::as_writable_bytes(std::span(&y, 1))));
  return y;
}

// Uses a separate device, so that no other test allocates memory at the same time.
TEST_F(GpuPlans, RunningTakesThePlannedMemoryAndNoMore) {
  for (const bool maps_memory : {true, false}) {
    const auto devices = new_gpu_devices(maps_memory, std::make_shared<std::atomic<uint64_t>>(uint64_t{1} << 29));
    ASSERT_FALSE(devices.empty());
    const Device& device = *devices.front();
    ASSERT_OK_AND_ASSIGN(const auto backend, device.create_backend({}));
    Chain large = chain_of(300, 1.0f, 100'000), small = chain_of(300, 1.0f, 7);
    Executor executor(*backend);
    ASSERT_OK_AND_ASSIGN(const auto bytes, executor.measure({&large.graph, 1}));
    EXPECT_GT(bytes.at(0).work, 300u * 400u);  // parameters
    const uint64_t before = device.memory().free_bytes;
    ASSERT_OK(executor.reserve({&large.graph, 1}));
    const uint64_t reserved = device.memory().free_bytes;
    EXPECT_EQ(before - reserved, bytes.at(0).total());
    for (Chain* chain : {&large, &small}) {
      ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(chain->graph));
      ASSERT_OK_AND_ASSIGN(const float y, run_chain(executor, *prepared, *chain, 3.0f));
      EXPECT_EQ(y, 3.0f);
      EXPECT_EQ(device.memory().free_bytes, reserved);
    }
  }
}

TEST_F(GpuPlans, GraphsTakeTurnsInOneWorkMemory) {
  ASSERT_OK_AND_ASSIGN(const auto backend, gpu_device()->create_backend({}));
  const Chain doubled = chain_of(3, 2.0f, 64), halved = chain_of(2, 0.5f, 64);
  Executor executor(*backend);
  const Graph graphs[] = {doubled.graph, halved.graph};
  ASSERT_OK(executor.reserve(graphs));
  ASSERT_OK_AND_ASSIGN(const auto first, executor.prepare(doubled.graph));
  ASSERT_OK_AND_ASSIGN(const auto second, executor.prepare(halved.graph));
  for (const float x : {1.0f, 2.0f, 3.0f}) {
    EXPECT_EQ(run_chain(executor, *first, doubled, x).value(), 8 * x);
    EXPECT_EQ(run_chain(executor, *first, doubled, -x).value(), -8 * x);
    EXPECT_EQ(run_chain(executor, *second, halved, x).value(), x / 4);
  }
}

TEST_F(GpuPlans, TooLittleWorkMemoryIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto backend, gpu_device()->create_backend({}));
  const Chain chain = chain_of(4, 2.0f, 64);
  ASSERT_OK_AND_ASSIGN(const size_t bytes, backend->work_bytes(chain.graph));
  ASSERT_OK_AND_ASSIGN(const auto buffer, gpu_device()->buffer_type().allocate(8192, BufferUsage::compute));
  std::vector<Tensor> tensors;
  for (NodeId id = 0; id < chain.graph.size(); ++id)
    tensors.push_back({{DType::f32, chain.graph[id].spec.layout}, "", &buffer->type(), buffer.get(), 0});
  EXPECT_ERROR(backend->compile(chain.graph, tensors, {buffer.get(), 4096, bytes - 1}), "work memory of");
  EXPECT_ERROR(backend->compile(chain.graph, tensors, {}), "work memory of 0 bytes");
  EXPECT_OK(backend->compile(chain.graph, tensors, {buffer.get(), 4096, bytes}));
  const std::unique_ptr<Device> cpu = cpu::create_device("").value();
  ASSERT_OK_AND_ASSIGN(const auto elsewhere, cpu->buffer_type().allocate(8192, BufferUsage::compute));
  EXPECT_ERROR(backend->compile(chain.graph, tensors, {elsewhere.get(), 0, bytes}), "cannot address");
  tensors.back().buffer = elsewhere.get();
  EXPECT_ERROR(backend->compile(chain.graph, tensors, {buffer.get(), 4096, bytes}),
               std::string("has no memory that ") + kGpuName);
}

// The scheduler copies operands from other memory.
TEST_F(GpuPlans, OperandsInOtherMemoryAreSupported) {
  const std::unique_ptr<Device> cpu = cpu::create_device("").value();
  const OwnedTensor weight(cpu->buffer_type(), "w", DType::f32, {8, 4}, {});
  GraphBuilder b;
  const Value y = b.output(b.mul_mat(b.tensor(weight.tensor), b.input("x", DType::f32, {8, 2})), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  EXPECT_TRUE(gpu_device()->supports(graph, y.id()));
}

TEST_F(GpuPlans, TimesOfNodesAreTold) {
  ASSERT_OK_AND_ASSIGN(const auto backend, gpu_device()->create_backend({}));
  const Chain chain = chain_of(5, 2.0f, 100'000);
  Executor executor(*backend);
  ASSERT_OK(executor.reserve({&chain.graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(chain.graph));
  ASSERT_OK_AND_ASSIGN(const float expected, run_chain(executor, *prepared, chain, 3.0f));
  for (int round = 0; round < 2; ++round) {
    const Tensor &from = prepared->tensor(chain.x), &to = prepared->tensor(chain.y);
    const std::vector<float> values(100'000, 3.0f);
    ASSERT_OK(from.buffer->set(from, 0, std::as_bytes(std::span(values))));
    RunLog log;
    ASSERT_OK(executor.run(*prepared, {.log = &log}));
    ASSERT_EQ(log.nodes.size(), 5u);
    for (size_t i = 0; i < log.nodes.size(); ++i) {
      EXPECT_EQ(chain.graph[log.nodes[i].node].op, Op::scale);
      EXPECT_GT(log.nodes[i].us, 0);
      const double end = i == 0 ? 0 : log.nodes[i - 1].begin_us + log.nodes[i - 1].us;
      EXPECT_GE(log.nodes[i].begin_us, end - 1e-6);  // rounding
    }
    const RunLog::Slice& slice = log.slices.at(0);
    EXPECT_LE(log.nodes.back().begin_us + log.nodes.back().us, slice.begin_us + slice.us);
    float y = 0;
    ASSERT_OK(to.buffer->get(to, 0, std::as_writable_bytes(std::span(&y, 1))));
    EXPECT_EQ(y, expected);
  }
}

TEST(GpuOptions, TheEnvironmentLimitsMemory) {
  ::setenv(kGpuMemoryVariable, "123456", 1);
  const auto limited = gpu_backend::options_from_environment();
  ::setenv(kGpuMemoryVariable, "12x", 1);
  const auto bad = gpu_backend::options_from_environment();
  ::unsetenv(kGpuMemoryVariable);
  ASSERT_OK(limited);
  EXPECT_EQ(*limited->max_bytes, 123456u);
  EXPECT_ERROR(bad, kGpuMemoryVariable + std::string(": '12x', want a number of bytes"));
  EXPECT_EQ(gpu_backend::options_from_environment()->max_bytes, nullptr);
}

}  // namespace
}  // namespace tessera
