// Running a prepared graph allocates nothing. The test counts every operator new of its program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/support/engine_support.h"

namespace {

std::atomic<int64_t> n_allocations{0};

}  // namespace

#ifndef TESSERA_SANITIZED  // sanitizers have their own; not inlined, else GCC reports a mismatch of new and free()
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++n_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace tessera {
namespace {

TEST(Executor, RunNeverAllocates) {
#ifdef TESSERA_SANITIZED
  GTEST_SKIP() << "allocations are not counted under a sanitizer";
#endif
  const std::string path = testing::story_model();
  ASSERT_OK_AND_ASSIGN(const auto engine, testing::load_engine(path));
  ASSERT_OK_AND_ASSIGN(const auto cache,
                       KvCache::plan(engine->device(), {.layers = engine->model().info().kv_layers, .n_ctx = 128}));
  ASSERT_OK(cache->allocate());
  for (const int n_threads : {1, 2})
    for (const int64_t n_tokens : {1, 40}) {
      GraphBuilder b;
      engine->model().build(b, nn::add_batch_inputs(b, *cache, n_tokens, 1), *cache);
      ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
      ASSERT_OK_AND_ASSIGN(const auto backend, engine->device().create_backend({.threads = {.n_threads = n_threads}}));
      Executor executor(*backend);
      ASSERT_OK(executor.reserve({&graph, 1}));
      ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph));  // its inputs stay zeros
      const int64_t before = n_allocations;
      const auto done = executor.run(*prepared);
      const int64_t allocated = n_allocations - before;
      ASSERT_OK(done);
      EXPECT_EQ(allocated, 0) << n_threads << " threads, " << n_tokens << " tokens";
    }
}

}  // namespace
}  // namespace tessera
