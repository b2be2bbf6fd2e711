// Small paged caches for tests: f32, with one head of one element per layer, so that a cell holds one number.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tessera/cache/paged.h"
#include "tessera/cpu/backend.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// The CPU device of this test process.
inline const Device& cpu_device() {
  static const std::unique_ptr<Device> device = cpu::create_device("").value();
  return *device;
}

inline std::unique_ptr<KvCache> cache_of(KvCacheConfig config) {
  config.type_k = config.type_v = DType::f32;
  auto cache = KvCache::plan(cpu_device(), std::move(config)).value();
  EXPECT_OK(cache->allocate());
  return cache;
}

inline std::unique_ptr<KvCache> small_cache(int64_t n_ctx, int32_t n_sequences) {
  return cache_of({.layers = {{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1}}, .n_ctx = n_ctx, .n_sequences = n_sequences});
}

/// Layer 0 attends to all positions. Layer 1 has a window, and its V is part of K.
inline std::unique_ptr<KvCache> window_cache(int64_t n_ctx, int32_t n_sequences, int64_t window, int64_t n_ubatch) {
  return cache_of(
      {.layers = {{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1}, {.n_heads_kv = 1, .k_dim = 1, .window = window}},
       .n_ctx = n_ctx,
       .n_sequences = n_sequences,
       .n_ubatch = n_ubatch});
}

inline std::vector<BatchToken> range_of(int32_t sequence, int32_t begin, int32_t end) {
  std::vector<BatchToken> tokens;
  for (int32_t p = begin; p < end; ++p) tokens.push_back({.position = p, .sequence = sequence});
  return tokens;
}

/// A batch of one micro-batch.
inline Result<std::vector<int32_t>> reserve_range(KvCache& cache, int32_t sequence, int32_t begin, int32_t end) {
  std::vector<std::vector<int32_t>> cells;
  TESSERA_TRY(cache.reserve(range_of(sequence, begin, end), cells));
  TESSERA_TRY(cache.commit());
  return cells[0];
}

inline std::vector<int32_t> positions_of(const KvCache& cache, int32_t sequence, size_t group = 0) {
  return cache.cells(sequence, group).value().positions;
}

}  // namespace tessera::testing
