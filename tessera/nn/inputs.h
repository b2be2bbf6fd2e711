// What a decoder graph takes for each micro-batch. Only these change from run to run; the cache's tables are
// tensors of the cache itself.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "tessera/cache/paged.h"
#include "tessera/cache/recurrent.h"
#include "tessera/graph/builder.h"

namespace tessera::nn {

/// Of the layers that share an attention window.
struct CacheInputs {
  Value cells;   // i32 [n_tokens]: where each token's K and V go in the cache
  Value blocks;  // i32 [n_max_blocks, n_sequences], of the cache
  Value valid;   // i64 [n_max_blocks, n_sequences], of the cache
};

struct BatchInputs {
  Value tokens;                        // i32 [n_tokens]
  Value positions;                     // i32 [n_tokens]
  Value sequences;                     // i32 [n_tokens]
  Value outputs;                       // i32 [n_outputs]: the tokens whose logits are wanted; absent when none are
  std::vector<CacheInputs> groups;     // by group of the cache; absent values where no layer is in it
  std::vector<size_t> group_of_layer;  // by layer of the cache
  Value runs;                          // i32: ops/recurrent.h; absent without recurrent layers
  const RecurrentCache* states = nullptr;
  CacheInputs encoded;               // of the encoder's cache, without cells; absent where there is none
  const KvCache* encoder = nullptr;  // K and V of the encoder's output

  const CacheInputs& cache(int64_t layer) const { return groups[group_of_layer[static_cast<size_t>(layer)]]; }
  /// State `kind` of a recurrent layer.
  Value state(GraphBuilder& b, int64_t layer, int64_t kind) const { return b.tensor(states->state(layer, kind)); }
};

/// `states` is null for models without recurrent layers.
inline BatchInputs add_batch_inputs(GraphBuilder& b, const KvCache& cache, int64_t n_tokens, int64_t n_outputs,
                                    const RecurrentCache* states = nullptr) {
  BatchInputs in;
  in.tokens = b.input("tokens", DType::i32, {n_tokens});
  in.positions = b.input("positions", DType::i32, {n_tokens});
  in.sequences = b.input("sequences", DType::i32, {n_tokens});
  if (n_outputs > 0) in.outputs = b.input("outputs", DType::i32, {n_outputs});
  in.groups.resize(cache.groups().size());
  for (size_t g = 0; g < in.groups.size(); ++g) {
    const KvGroup& group = cache.groups()[g];
    if (!group.has_data()) continue;
    in.groups[g].cells = b.input(g == 0 ? "cells" : fmt::format("cells.{}", g), DType::i32, {n_tokens});
    in.groups[g].blocks = b.tensor(group.blocks());
    in.groups[g].valid = b.tensor(group.valid());
  }
  for (size_t il = 0; il < cache.config().layers.size(); ++il)
    in.group_of_layer.push_back(cache.group_of(static_cast<int64_t>(il)));
  in.states = states;
  if (states != nullptr) in.runs = b.input("runs", DType::i32, {states->n_run_entries(n_tokens)});
  return in;
}

/// For a decoder that attends to an encoder's output.
inline void add_encoder_inputs(GraphBuilder& b, BatchInputs& in, const KvCache& encoder) {
  const KvGroup& group = encoder.groups()[0];
  in.encoded.blocks = b.tensor(group.blocks());
  in.encoded.valid = b.tensor(group.valid());
  in.encoder = &encoder;
}

}  // namespace tessera::nn
