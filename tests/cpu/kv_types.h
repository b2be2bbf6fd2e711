// The types that a KV cache can have, and their rows.
#pragma once

#include "tessera/tensor/dtype.h"

namespace tessera::testing {

inline constexpr DType kCacheTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0,  DType::q4_0,
                                        DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl};

inline size_t kv_row_bytes(DType dtype, int dim) {
  return static_cast<size_t>(dim / info(dtype).block_elements * info(dtype).block_bytes);
}

}  // namespace tessera::testing
