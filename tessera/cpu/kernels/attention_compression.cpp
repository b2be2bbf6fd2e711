// Entries of compressed rows. A lane is one channel, and the rows of a channel are added in the order of positions.
#include "tessera/cpu/kernels/attention_compression.h"

#include "tessera/cpu/kernels/kv_tiles.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

/// The score of the channels from `i` on.
inline F32x16 score(const EntryRow& row, int64_t row_dim, int64_t i, int count) {
  const float* gates = static_cast<const float*>(row.gate_block) + row.slot * row_dim + row.channel;
  return add(load_up_to(gates + i, count), load_up_to(row.bias + i, count));
}

/// The elements of a token in a tile of K are not adjacent.
inline F32x16 elements(const EntryRow& row, int64_t row_dim, int64_t i, int count) {
  const int tile = row.slot / kTileTokens, lane = row.slot % kTileTokens;
  const float* from =
      static_cast<const float*>(row.row_block) + (tile * row_dim + row.channel + i) * kTileTokens + lane;
  alignas(64) float lanes[kLanes] = {};
  for (int e = 0; e < count; ++e) lanes[e] = from[e * kTileTokens];
  return F32x16::load(lanes);
}

}  // namespace

void compress_rows(const CompressionTask& t) {
  for_vectors(t.n, [&t](int64_t i, int count) {
    if (t.n_rows == 0) return store_up_to(F32x16::zero(), t.out + i, count);
    F32x16 highest = score(t.rows[0], t.row_dim, i, count);
    for (int64_t r = 1; r < t.n_rows; ++r) highest = max(highest, score(t.rows[r], t.row_dim, i, count));
    F32x16 total = F32x16::zero(), sum = F32x16::zero();
    for (int64_t r = 0; r < t.n_rows; ++r) {
      const F32x16 weight = exp(sub(score(t.rows[r], t.row_dim, i, count), highest));
      total = add(total, weight);
      sum = fma(weight, elements(t.rows[r], t.row_dim, i, count), sum);
    }
    store_up_to(div(sum, total), t.out + i, count);
  });
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
