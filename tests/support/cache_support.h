// Small paged caches for tests: f32, one layer of one head of one element, so that a cell holds one number.
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

inline std::unique_ptr<KvCache> small_cache(int64_t n_ctx, int32_t n_sequences) {
  auto cache = KvCache::plan(cpu_device(), {.layers = {{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1}},
                                            .type_k = DType::f32,
                                            .type_v = DType::f32,
                                            .n_ctx = n_ctx,
                                            .n_sequences = n_sequences})
                   .value();
  EXPECT_OK(cache->allocate());
  return cache;
}

inline Result<std::vector<int32_t>> reserve_range(KvCache& cache, int32_t sequence, int32_t begin, int32_t end) {
  std::vector<BatchToken> tokens;
  for (int32_t p = begin; p < end; ++p) tokens.push_back({.position = p, .sequence = sequence});
  std::vector<int32_t> cells;
  TESSERA_TRY(cache.reserve(tokens, cells));
  return cells;
}

inline std::vector<int32_t> positions_of(const KvCache& cache, int32_t sequence) {
  return cache.cells(sequence).value().positions;
}

}  // namespace tessera::testing
