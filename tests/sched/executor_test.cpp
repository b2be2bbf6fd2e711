#include "tessera/sched/executor.h"

#include <gtest/gtest.h>

#include "tests/support/engine_support.h"
#include "tests/support/graph_runner.h"
#include "tests/support/random_graph.h"

namespace tessera {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::GraphRunner;
using testing::NamedBytes;

Graph silu_graph(int64_t n) {
  GraphBuilder b;
  b.output(b.silu(b.input("x", DType::f32, {n})), "y");
  return std::move(b).finish().value();
}

TEST(Executor, SharingBytesDoesNotChangeResults) {
  GraphRunner one("", 1), two("", 2);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const testing::RandomGraph shared = testing::random_graph(seed, 40, false);
    testing::RandomGraph apart = testing::random_graph(seed, 40, true);
    Rng rng(seed);
    NamedBytes inputs;
    for (const auto& [name, shape] : shared.inputs)
      inputs[name] = bytes_of(testing::random_values(rng, shape.n_elements()));
    ASSERT_OK_AND_ASSIGN(const NamedBytes expected, one.run(std::move(apart.graph), inputs));
    for (GraphRunner* runner : {&one, &two}) {
      ASSERT_OK_AND_ASSIGN(const NamedBytes outputs, runner->run(shared.graph, inputs));
      for (const auto& [name, bytes] : outputs) ASSERT_EQ(bytes, expected.at(name)) << "seed " << seed << ", " << name;
    }
  }
}

TEST(Executor, RefusesAGraphLargerThanReserved) {
  GraphRunner runner;
  Executor executor(runner.backend());
  const Graph reserved = silu_graph(16);
  ASSERT_OK(executor.reserve({&reserved, 1}));
  EXPECT_EQ(executor.reserved_bytes(), std::vector<size_t>{64});
  EXPECT_OK(executor.prepare(silu_graph(16)));
  EXPECT_OK(executor.prepare(silu_graph(3)));
  const auto larger = executor.prepare(silu_graph(17));
  EXPECT_ERROR(larger, "the graph takes 128 bytes, 64 are reserved");
  EXPECT_EQ(larger.error().code(), ErrorCode::limit);
}

TEST(Executor, RefusesToPrepareBeforeReserving) {
  GraphRunner runner;
  Executor executor(runner.backend());
  EXPECT_ERROR(executor.prepare(silu_graph(16)), "0 are reserved");
}

TEST(Executor, MeasureIsWhatReserveAllocates) {
  GraphRunner runner("", 2);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = testing::random_graph(seed, 30, false).graph;
    Executor executor(runner.backend());
    ASSERT_OK_AND_ASSIGN(const std::vector<ComputeBytes> bytes, executor.measure({&graph, 1}));
    ASSERT_OK(executor.reserve({&graph, 1}));
    ASSERT_EQ(executor.reserved_bytes(), std::vector<size_t>{bytes.front().total()});
  }
}

TEST(Executor, RefusesWhatTheDeviceCannotRun) {
  GraphRunner runner;
  GraphBuilder b;
  b.output(b.mul_mat(b.input("w", DType::q8_k, {256, 4}), b.input("x", DType::f32, {256, 1})), "y");
  const Graph graph = std::move(b).finish().value();
  Executor executor(runner.backend());
  const auto measured = executor.measure({&graph, 1});
  EXPECT_ERROR(measured, "cpu cannot run mul_mat w q8_K [256, 4], x f32 [256]");
  EXPECT_EQ(measured.error().code(), ErrorCode::unsupported);
  EXPECT_ERROR(executor.reserve({&graph, 1}), "cpu cannot run");
}

TEST(Executor, ATensorWithoutMemoryIsAnError) {
  const Tensor weight{{DType::f32, contiguous_layout(DType::f32, {16, 16}).value()}, "w"};
  GraphRunner runner;
  GraphBuilder b;
  b.output(b.mul_mat(b.tensor(weight), b.input("x", DType::f32, {16})), "y");
  const Graph graph = std::move(b).finish().value();
  Executor executor(runner.backend());
  ASSERT_OK(executor.reserve({&graph, 1}));
  EXPECT_ERROR(executor.prepare(graph), "w has no memory");
}

// A session reserves memory for its largest micro-batch, and prepares smaller ones in it.
TEST(Executor, EverySmallerMicroBatchFitsWhatWasReserved) {
  const std::string path = testing::story_model();
  ASSERT_OK_AND_ASSIGN(const auto engine, testing::load_engine(path));
  ASSERT_OK_AND_ASSIGN(const auto cache,
                       KvCache::plan(engine->device(), {.layers = engine->model().info().kv_layers, .n_ctx = 512}));
  ASSERT_OK(cache->allocate());
  const auto decoder = [&](int64_t n_tokens, int64_t n_outputs) {
    GraphBuilder b;
    engine->model().build(b, nn::add_batch_inputs(b, *cache, n_tokens, n_outputs), *cache);
    return std::move(b).finish().value();
  };
  for (const int n_threads : {1, 5}) {
    ASSERT_OK_AND_ASSIGN(const auto backend, engine->device().create_backend({.threads = {.n_threads = n_threads}}));
    for (const int64_t largest : {1, 2, 5, 9, 17, 33, 512}) {
      Executor executor(*backend);
      const Graph graphs[] = {decoder(largest, largest), decoder(largest, 0)};
      ASSERT_OK(executor.reserve(graphs));
      for (int64_t n = 1; n <= largest; n += n < 40 || n > 500 ? 1 : 7)
        for (const int64_t n_outputs : {int64_t{0}, int64_t{1}, n / 2, n}) {
          const auto prepared = executor.prepare(decoder(n, n_outputs));
          ASSERT_TRUE(prepared.has_value()) << n << " of " << largest << " tokens, " << n_outputs << " outputs, "
                                            << n_threads << " threads: " << prepared.error().message();
        }
    }
  }
}

}  // namespace
}  // namespace tessera
