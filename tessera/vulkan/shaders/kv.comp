#version 460
#extension GL_GOOGLE_include_directive : require
// kv_store (variant 0) and kv_load (1): copy rows into and out of the cells of a cache, in which the rows of
// consecutive tokens are adjacent. A workgroup copies a row; an invocation copies a word or encodes a block. Rows have
// an even number of bytes, so a word may contain the end of one row and the start of the next, which another workgroup
// writes.
//   kFormat: of the cache; kFormat2: of the rows (store); u[0]: bytes of a cache row
#include "step.glsl"
#include "formats.glsl"
#include "encode.glsl"

const uint kFaultCell = 2, kBlockTokens = 64;

/// Writes half of a word that other workgroups may also write. a: a multiple of 2.
void put_half(uint64_t a, uint half_word) {
  Words word = Words(a & ~3ul);
  const uint shift = 8u * uint(a & 2ul);
  atomicAnd(word.at[0], ~(0xffffu << shift));
  atomicOr(word.at[0], half_word << shift);
}

/// Writes the bytes of [begin, end) that are in the word at `a`. The other bytes of `word` are ignored.
void put_part(uint64_t a, uint64_t begin, uint64_t end, uint word) {
  if (a >= begin && a + 4ul <= end) {
    Words(a).at[0] = word;
  } else if (a >= begin) {
    put_half(a, word & 0xffffu);
  } else {
    put_half(a + 2ul, word >> 16u);
  }
}

void copy_row(uint64_t from, uint64_t to, uint n_bytes) {
  const uint64_t first = to & ~3ul, end = to + uint64_t(n_bytes);
  for (uint64_t a = first + uint64_t(4u * lane()); a < end; a += uint64_t(4u * n_lanes())) {
    const bool holds_low = a >= to, holds_high = a + 4ul <= end;
    const uint low = holds_low ? half_at(from + (a - to)) : 0u;
    const uint high = holds_high ? half_at(from + (a + 2ul - to)) : 0u;
    put_part(a, to, end, low | high << 16u);
  }
}

/// Returns elements 2i and 2i + 1 of a row of n in the cache's format, f16 or bf16, as one word.
uint narrowed(Floats from, uint i, uint n) {
  const float low = from.at[2u * i], high = 2u * i + 1u < n ? from.at[2u * i + 1u] : 0.0;
  return kFormat == kFormat_f16 ? half_of_float(low) | half_of_float(high) << 16u
                       : bf16_of_float(low) | bf16_of_float(high) << 16u;
}

void narrow_row(Floats from, uint64_t to, uint n) {
  for (uint i = lane(); 2u * i < n; i += n_lanes()) {
    const uint64_t a = to + uint64_t(4u * i);
    const uint word = narrowed(from, i, n);
    if ((a & 2ul) == 0ul && 2u * i + 1u < n) {
      Words(a).at[0] = word;
    } else {
      put_half(a, word & 0xffffu);
      if (2u * i + 1u < n) put_half(a + 2ul, word >> 16u);
    }
  }
}

void encode_row(Floats from, uint64_t to, uint n) {
  const uint n_halves = block_halves(kFormat);
  for (uint b = lane(); 32u * b < n; b += n_lanes()) {
    float x[32];
    for (uint i = 0; i < 32u; ++i) x[i] = from.at[32u * b + i];
    Block block;
    encode_block(kFormat, x, block);
    const uint64_t at = to + uint64_t(2u * n_halves * b);
    uint h = 0u;
    if ((at & 2ul) != 0ul) put_half(at, block.halves[h++]);
    for (; h + 1u < n_halves; h += 2u)
      Words(at + uint64_t(2u * h)).at[0] = block.halves[h] | block.halves[h + 1u] << 16u;
    if (h < n_halves) put_half(at + uint64_t(2u * h), block.halves[h]);
  }
}

void main() {
  const uint row = group_index();
  if (row >= step.n_groups) return;
  const bool stores = kVariant == 0u;
  const uint n_heads = step.x[0].ne[2], head = row % n_heads, token = row / n_heads, dim = step.x[0].ne[0];
  const uint n_cells = step.x[0].ne[3] * kBlockTokens;
  const int cell = Ints(stores ? step.x[2].data : step.x[1].data).at[token];
  if (stores && cell == -1) return;
  if (cell < 0 || uint(cell) >= n_cells) {
    if (lane() == 0u) report(kFaultCell, cell, n_cells);
    return;
  }
  const uint64_t cached = row_of(step.x[0], uint(cell) % kBlockTokens, head, uint(cell) / kBlockTokens);
  if (!stores) {
    copy_row(cached, row_of(step.y, head, token, 0u), step.u[0]);
    return;
  }
  const uint64_t from = row_of(step.x[1], head, token, 0u);
  if (kFormat2 == kFormat)
    copy_row(from, cached, step.u[0]);
  else if (kFormat == kFormat_f16 || kFormat == kFormat_bf16)
    narrow_row(Floats(from), cached, dim);
  else
    encode_row(Floats(from), cached, dim);
}
