#version 460
#extension GL_GOOGLE_include_directive : require
// kv_store (variant 0) and kv_load (1): rows into and out of the cells of a cache, whose tokens' rows lie one after
// another. A workgroup takes a row; an invocation a word of it. kFormat: the cache's; kFormat2: the rows' (store).
//   u[0]: words of a cache row
#include "step.glsl"
#include "formats.glsl"

const uint kFaultCell = 2, kBlockTokens = 64;

uint word_of(Words from, uint i) {
  if (kFormat2 == kFormat) return from.at[i];
  const float a = uintBitsToFloat(from.at[2u * i]), b = uintBitsToFloat(from.at[2u * i + 1u]);
  return kFormat == 1u ? half_of_float(a) | half_of_float(b) << 16u : bf16_of_float(a) | bf16_of_float(b) << 16u;
}

void main() {
  const uint row = group_index();
  if (row >= step.n_groups) return;
  const bool stores = kVariant == 0u;
  const uint n_heads = step.x[0].ne[2], head = row % n_heads, token = row / n_heads;
  const uint n_cells = step.x[0].ne[3] * kBlockTokens;
  const int cell = Ints(stores ? step.x[2].data : step.x[1].data).at[token];
  if (stores && cell == -1) return;
  if (cell < 0 || uint(cell) >= n_cells) {
    if (lane() == 0u) report(kFaultCell, cell, n_cells);
    return;
  }
  Words cached = Words(row_of(step.x[0], uint(cell) % kBlockTokens, head, uint(cell) / kBlockTokens));
  Words rows = Words(stores ? row_of(step.x[1], head, token, 0u) : row_of(step.y, head, token, 0u));
  for (uint i = lane(); i < step.u[0]; i += n_lanes()) {
    if (stores)
      cached.at[i] = word_of(rows, i);
    else
      rows.at[i] = cached.at[i];
  }
}
