// The shape rules and the cost of the paged KV cache.
#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

TEST(KvRules, StoreTakesFloatsOrRowsOfTheCache) {
  const auto store = [](const Shape& cache, DType dtype, const Shape& x, int64_t n_cells) {
    return [=](GraphBuilder& b) {
      return b.kv_store(b.input("c", DType::f16, cache), b.input("x", dtype, x), i32(b, n_cells), KvSide::v);
    };
  };
  const Shape cache{8, 64, 2, 3};
  expect_shape(store(cache, DType::f32, {8, 2, 5}, 5), cache, DType::f16);
  expect_shape(store(cache, DType::f16, {8, 2, 5}, 5), cache, DType::f16);
  expect_shape(store(cache, DType::f32, {8, 2, 0}, 0), cache, DType::f16);
  expect_refused(store(cache, DType::bf16, {8, 2, 5}, 5), "rows are bf16, want f32 or f16");
  expect_refused(store(cache, DType::f32, {8, 3, 5}, 5), "do not fit the cache");
  expect_refused(store(cache, DType::f32, {4, 2, 5}, 5), "do not fit the cache");
  expect_refused(store(cache, DType::f32, {8, 2, 5, 2}, 5), "do not fit the cache");
  expect_refused(store(cache, DType::f32, {8, 2, 5}, 4), "cells has 4 entries, want 5");
  expect_refused(store({8, 32, 2, 3}, DType::f32, {8, 2, 5}, 5), "want [dim, 64, n_heads_kv, n_blocks]");
}

TEST(KvRules, LoadGivesRowsOfTheCache) {
  const auto load = [](const Shape& cache, int64_t n) {
    return [=](GraphBuilder& b) { return b.kv_load(b.input("c", DType::q8_0, cache), i32(b, n), KvSide::k); };
  };
  expect_shape(load({32, 64, 2, 3}, 5), {32, 2, 5}, DType::q8_0);
  expect_refused(load({32, 63, 2, 3}, 5), "want [dim, 64, n_heads_kv, n_blocks]");
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

TEST(Cost, RowsThatAreMovedCountNotTheCache) {
  GraphBuilder b;
  const Value cache = b.input("c", DType::f16, {8, 64, 2, 100});
  const Value stored = b.kv_store(cache, f32(b, {8, 2, 3}), i32(b, 3), KvSide::k);
  const Value loaded = b.kv_load(cache, i32(b, 3), KvSide::k);
  const Graph graph = std::move(b).finish().value();
  EXPECT_EQ(cost(graph, stored.id()).bytes, 2 * 8 * 2 * 3 * 4);
  EXPECT_EQ(cost(graph, loaded.id()).bytes, 2 * 8 * 2 * 3 * 2);
}

}  // namespace
}  // namespace tessera
