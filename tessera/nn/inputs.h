// What a decoder graph takes for each micro-batch. Only these change from run to run; the cache's tables are
// tensors of the cache itself.
#pragma once

#include "tessera/cache/paged.h"
#include "tessera/graph/builder.h"

namespace tessera::nn {

struct BatchInputs {
  Value tokens;     // i32 [n_tokens]
  Value positions;  // i32 [n_tokens]
  Value sequences;  // i32 [n_tokens]
  Value cells;      // i32 [n_tokens]: where each token's K and V go in the cache
  Value outputs;    // i32 [n_outputs]: the tokens whose logits are wanted; absent when none are
  Value blocks;     // i32 [n_max_blocks, n_sequences], of the cache
  Value valid;      // i64 [n_max_blocks, n_sequences], of the cache
};

inline BatchInputs add_batch_inputs(GraphBuilder& b, const KvCache& cache, int64_t n_tokens, int64_t n_outputs) {
  BatchInputs in;
  in.tokens = b.input("tokens", DType::i32, {n_tokens});
  in.positions = b.input("positions", DType::i32, {n_tokens});
  in.sequences = b.input("sequences", DType::i32, {n_tokens});
  in.cells = b.input("cells", DType::i32, {n_tokens});
  if (n_outputs > 0) in.outputs = b.input("outputs", DType::i32, {n_outputs});
  in.blocks = b.tensor(cache.blocks());
  in.valid = b.tensor(cache.valid());
  return in;
}

}  // namespace tessera::nn
