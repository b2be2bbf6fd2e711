// Shared by the kernels that store rows in the cells of a cache (kv, rope). Rows have an even number of bytes, so a
// word may contain the end of one row and the start of the next, which other threads write.
#pragma once

#include "tessera/cuda/kernels/encode.cuh"

namespace tessera::cuda {

constexpr uint32_t kBlockTokens = 64;

/// Writes half of a word that other threads may also write. a: a multiple of 2.
__device__ inline void put_half(uint64_t a, uint32_t half) {
  uint32_t* word = words(a & ~uint64_t{3});
  const uint32_t shift = 8 * static_cast<uint32_t>(a & 2);
  atomic_and(word, ~(0xffffu << shift));
  atomic_or(word, half << shift);
}

/// Writes the bytes of [begin, end) that are in the word at `a`. The other bytes of `word` are ignored.
__device__ inline void put_part(uint64_t a, uint64_t begin, uint64_t end, uint32_t word) {
  if (a >= begin && a + 4 <= end) {
    *words(a) = word;
  } else if (a >= begin) {
    put_half(a, word & 0xffff);
  } else {
    put_half(a + 2, word >> 16);
  }
}

__device__ inline void copy_row(uint64_t from, uint64_t to, uint32_t n_bytes) {
  if (is_wide(from | to | n_bytes)) {
    for (uint32_t i = kWideBytes * row_lane(); i < n_bytes; i += kWideBytes * kRowLanes)
      *at<Word4>(to + i) = *at<const Word4>(from + i);
    return;
  }
  const uint64_t first = to & ~uint64_t{3}, end = to + n_bytes;
  for (uint64_t a = first + 4 * row_lane(); a < end; a += 4 * kRowLanes) {
    const bool holds_low = a >= to, holds_high = a + 4 <= end;
    const uint32_t low = holds_low ? half_at(from + (a - to)) : 0;
    const uint32_t high = holds_high ? half_at(from + (a + 2 - to)) : 0;
    put_part(a, to, end, low | high << 16);
  }
}

/// Two elements in the cache's format, f16 or bf16.
__device__ inline uint32_t narrow_pair(uint32_t format, float low, float high) {
  return narrow_of_float(format, low) | narrow_of_float(format, high) << 16;
}

/// Writes n floats in the cache's format, f16 or bf16. A thread takes eight elements, or two if the rows are not
/// aligned.
__device__ inline void narrow_row(uint32_t format, const float* from, uint64_t to, uint32_t n) {
  const auto source = reinterpret_cast<uint64_t>(from);
  if (is_wide(source | to) && n % 8 == 0) {
    for (uint32_t i = 8 * row_lane(); i < n; i += 8 * kRowLanes) {
      const Float4 a = float4_at(source + 4 * uint64_t{i}), b = float4_at(source + 4 * uint64_t{i} + kWideBytes);
      *at<Word4>(to + 2 * uint64_t{i}) = {narrow_pair(format, a.v[0], a.v[1]), narrow_pair(format, a.v[2], a.v[3]),
                                          narrow_pair(format, b.v[0], b.v[1]), narrow_pair(format, b.v[2], b.v[3])};
    }
    return;
  }
  for (uint32_t i = 2 * row_lane(); i < n; i += 2 * kRowLanes) {
    const uint64_t a = to + 2 * uint64_t{i};
    const bool has_second = i + 1 < n;
    const uint32_t low = narrow_of_float(format, from[i]);
    const uint32_t high = has_second ? narrow_of_float(format, from[i + 1]) : 0;
    if (a % 4 == 0 && has_second) {
      *words(a) = low | high << 16;
    } else {
      put_half(a, low);
      if (has_second) put_half(a + 2, high);
    }
  }
}

__device__ inline void encode_row(const Params& step, const float* from, uint64_t to, uint32_t n) {
  const uint32_t n_halves = block_halves(step.format);
  const auto source = reinterpret_cast<uint64_t>(from);
  for (uint32_t b = row_lane(); 32 * b < n; b += kRowLanes) {
    float x[32];
    for (uint32_t i = 0; i < 32; i += 4) {
      const uint64_t at = source + 128 * uint64_t{b} + 4 * i;
      const Float4 v =
          is_wide(at) ? float4_at(at) : Float4{{floats(at)[0], floats(at)[1], floats(at)[2], floats(at)[3]}};
      for (uint32_t j = 0; j < 4; ++j) x[i + j] = v.v[j];
    }
    Block block;
    encode_block(step.format, step.tables, x, block);
    const uint64_t at = to + 2 * uint64_t{n_halves} * b;
    uint32_t h = 0;
    if (at % 4 != 0) put_half(at, block.halves[h++]);
    for (; h + 1 < n_halves; h += 2) *words(at + 2 * h) = block.halves[h] | block.halves[h + 1] << 16;
    if (h < n_halves) put_half(at + 2 * h, block.halves[h]);
  }
}

/// The address of a row of a cache. Cells are valid.
__device__ inline uint64_t row_of_cell(const Operand& cache, uint32_t cell, uint32_t head) {
  return row_of(cache, cell % kBlockTokens, head, cell / kBlockTokens);
}
/// Whether a cell is in the cache. If not, the first thread of the row reports it.
__device__ inline bool has_cell(const Params& step, const Operand& cache, int32_t cell) {
  const uint32_t n_cells = cache.ne[3] * kBlockTokens;
  if (cell >= 0 && static_cast<uint32_t>(cell) < n_cells) return true;
  if (row_lane() == 0) report(step, kFaultCell, cell, n_cells);
  return false;
}

/// Stores a row of n_bytes bytes in the cache, for a head of a token with this cell; -1: nowhere.
///   step.format: of the cache; step.format2: of the rows
__device__ inline void store_row(const Params& step, const Operand& cache, int32_t cell, uint32_t head, uint64_t from,
                                 uint32_t n_bytes) {
  if (cell == -1 || !has_cell(step, cache, cell)) return;
  const uint64_t to = row_of_cell(cache, static_cast<uint32_t>(cell), head);
  if (step.format2 == step.format) return copy_row(from, to, n_bytes);
  if (step.format == kFormat_f16 || step.format == kFormat_bf16)
    narrow_row(step.format, floats(from), to, cache.ne[0]);
  else
    encode_row(step, floats(from), to, cache.ne[0]);
}

}  // namespace tessera::cuda
