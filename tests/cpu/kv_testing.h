// Helpers for tests of the KV cache: its types, their rows, and floats as a cache stores them.
#pragma once

#include "tessera/cpu/dispatch.h"
#include "tests/support/graph_runner.h"

namespace tessera::testing {

inline constexpr DType kCacheTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0,  DType::q4_0,
                                        DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl};

inline size_t kv_row_bytes(DType dtype, int dim) {
  return static_cast<size_t>(dim / info(dtype).block_elements * info(dtype).block_bytes);
}

/// Rows of 32 floats after a round trip through the cache; the same on every instruction set.
inline std::vector<float> as_cached(DType dtype, const std::vector<float>& x) {
  const cpu::Kernels& kernels = **cpu::select_kernels("");
  const auto n = static_cast<int64_t>(x.size()), id = static_cast<int64_t>(dtype);
  Bytes row(nbytes(dtype, {n}).value());
  std::vector<float> y(x.size());
  kernels.from_f32[id](x.data(), n, row.data());
  kernels.to_f32[id](row.data(), n, y.data());
  return y;
}

}  // namespace tessera::testing
