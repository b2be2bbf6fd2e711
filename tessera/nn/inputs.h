// The inputs of a decoder's graph for one micro-batch. Only these change between runs. The tables of the cache are
// tensors of the cache itself.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/cache/sequence_memory.h"
#include "tessera/graph/builder.h"

namespace tessera::nn {

/// Inputs of the layers with the same attention window and stride. Those with a stride have logical blocks of entries
/// in front of those of positions in both tables (cache/paged.h).
struct CacheInputs {
  Value cells;                 // i32 [n_tokens]: the cell of the cache that gets each token's K and V
  Value blocks;                // i32 [n_entry_blocks + n_max_blocks, n_sequences]: a table of the cache
  Value valid;                 // i64 [n_entry_blocks + n_max_blocks, n_sequences]: a table of the cache
  Value positions;             // i32 [n_tokens]: positions in the tables; without a stride BatchInputs::positions
  int64_t stride = 0;          // > 0: positions for which an entry stands. The following is absent without stride.
  int64_t n_entry_blocks = 0;  // position p of a sequence is position 64 * n_entry_blocks + p in the tables
  Value entry_cells;           // i32 [n_tokens]: the cell that gets the entry which the token completes, or -1
  Value entry_positions;       // i32 [n_tokens]: the last entry that the token sees; 0 if it sees none
  Value entry_starts;          // i32 [n_tokens]: the first position of the entry to which the token belongs
};

struct BatchInputs {
  Value tokens;                        // i32 [n_tokens]
  Value positions;                     // i32 [n_tokens]
  Value sequences;                     // i32 [n_tokens]
  Value outputs;                       // i32 [n_outputs]: the tokens with outputs; absent if there are none
  Value hidden;                        // f32 [n_embd, n_tokens], for Model::head(); absent in other models
  std::vector<CacheInputs> groups;     // by group of the cache; absent values if no layer is in it. Of a group of
                                       // entries only the cells
  std::vector<size_t> group_of_layer;  // by layer of the cache
  Value segments;                      // i32: see graph/ops/recurrent.h; absent without recurrent layers
  const RecurrentCache* states = nullptr;
  CacheInputs encoded;               // of the encoder's cache, without cells; absent without encoder
  const KvCache* encoder = nullptr;  // K and V of the encoder's output
  bool int16_attention = false;      // AttentionParams::int16 of every attention

  const CacheInputs& cache(int64_t layer) const { return groups[group_of_layer[to_size(layer)]]; }
  /// State `kind` of a recurrent layer.
  Value state(GraphBuilder& b, int64_t layer, int64_t kind) const { return b.tensor(states->state(layer, kind)); }
};

/// Inputs that layers with a stride have besides those of other layers.
inline void add_entry_inputs(GraphBuilder& b, const KvCache& cache, size_t group, int64_t n_tokens, BatchInputs& in) {
  CacheInputs& at = in.groups[group];
  CacheInputs& entries = in.groups[*cache.entries_of(group)];
  const auto add = [&](std::string_view name) {
    return b.input(fmt::format("{}.{}", name, group), DType::i32, {n_tokens});
  };
  at.stride = cache.groups()[*cache.entries_of(group)].stride();
  at.n_entry_blocks = cache.n_entry_blocks(group);
  at.positions = add("positions");
  at.entry_cells = entries.cells = add("entry_cells");
  at.entry_positions = add("entry_positions");
  at.entry_starts = add("entry_starts");
}

/// The inputs of a model whose only state is K and V.
inline BatchInputs add_batch_inputs(GraphBuilder& b, const KvCache& cache, int64_t n_tokens, int64_t n_outputs) {
  BatchInputs in;
  in.tokens = b.input("tokens", DType::i32, {n_tokens});
  in.positions = b.input("positions", DType::i32, {n_tokens});
  in.sequences = b.input("sequences", DType::i32, {n_tokens});
  if (n_outputs > 0) in.outputs = b.input("outputs", DType::i32, {n_outputs});
  in.groups.resize(cache.groups().size());
  for (size_t g = 0; g < in.groups.size(); ++g) {
    const KvGroup& group = cache.groups()[g];
    if (!group.has_data() || group.stride() > 0) continue;  // those of entries are added with their layers' positions
    in.groups[g].cells = b.input(g == 0 ? "cells" : fmt::format("cells.{}", g), DType::i32, {n_tokens});
    in.groups[g].blocks = b.tensor(group.blocks());
    in.groups[g].valid = b.tensor(group.valid());
    in.groups[g].positions = in.positions;
    if (cache.entries_of(g)) add_entry_inputs(b, cache, g, n_tokens, in);
  }
  for (size_t il = 0; il < cache.config().layers.size(); ++il)
    in.group_of_layer.push_back(cache.group_of(static_cast<int64_t>(il)));
  return in;
}

/// The inputs of a decoder, with the states of its recurrent layers and the output of its encoder, if it has them.
inline BatchInputs add_batch_inputs(GraphBuilder& b, const SequenceMemory& memory, int64_t n_tokens,
                                    int64_t n_outputs) {
  BatchInputs in = add_batch_inputs(b, memory.kv(), n_tokens, n_outputs);
  in.states = &memory.states();
  if (memory.is_recurrent()) in.segments = b.input("segments", DType::i32, {in.states->n_segment_entries(n_tokens)});
  if (!memory.has_encoder()) return in;
  const KvGroup& group = memory.prompts().groups()[0];
  in.encoded.blocks = b.tensor(group.blocks());
  in.encoded.valid = b.tensor(group.valid());
  in.encoder = &memory.prompts();
  return in;
}

}  // namespace tessera::nn
