// Matrix multiplication for weights whose 32-column blocks have one scale, by exact int8 dot products: the
// template behind matmul_q4_0.cpp, matmul_q8_0.cpp and the formats to come. Block is a struct of unpack/*.h.
//
// Activations are quantized per group of G columns to x = d * q, q in [-127, 127]. Per output, blocks and
// groups ascending:
//   s = fma(float(sum over the block of (code - offset) * q), weight scale, s)    from s = 0 in each group
//   out = fma(s, d, out)                                                          from out = 0
// Every tile shape, and every call that includes the output, does exactly this: results do not depend on the
// split. The offset is not subtracted from the codes: the integer sum starts at -offset * sum(q) (the seed).
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/int8_activations.h"
#include "tessera/cpu/kernels/int8_dot.h"
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A 32-column block of any format, unpacked: what a tile reads when many tokens share the unpacking.
template <class Block>
struct alignas(64) UnpackedBlock {
  static constexpr int kMaxCode = Block::kMaxCode;
  static constexpr bool kStreamed = false;  // it is in the cache

  uint8_t codes[8][64];
  float scales[16];

  void unpack(const Block& block) {
    for (int v = 0; v < 4; ++v) {
      U8x64 low, high;
      block.code_pair(v, low, high);
      low.store(codes[v]);
      high.store(codes[v + 4]);
    }
    block.scale().store(scales);
  }
  void code_pair(int v, U8x64& low, U8x64& high) const {
    low = U8x64::load(codes[v]);
    high = U8x64::load(codes[v + 4]);
  }
  F32x16 scale() const { return F32x16::load(scales); }
};

/// A tile's work: R panels times T tokens over some groups of columns. Strides are in bytes.
struct Int8Tile {
  const uint8_t* blocks;  // the first panel's first block; a panel's blocks lie one after the other
  size_t panel_stride;
  const uint8_t* activations;  // the tile's first group
  size_t next_activations;     // bytes from there to what the next tile reads
  int64_t n_groups;
  int64_t group_blocks;
  float* out;  // the first panel's 16 outputs of the first token
  size_t out_stride;
  bool from_zero;  // else adds to `out`
};

/// Adds one block of R panels (panel_stride bytes apart) times T tokens to the sums of its group. `a` is at the
/// block's seeds.
template <class Block, int R, int T>
[[gnu::always_inline]] inline void int8_block(const uint8_t* w, size_t panel_stride, const uint8_t* a,
                                              F32x16 (&sum)[R][T]) {
  const Block* block[R];
  BlockDot<Block::kMaxCode> dot[R][T];
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    block[r] = reinterpret_cast<const Block*>(w + static_cast<size_t>(r) * panel_stride);
    if constexpr (Block::kStreamed) prefetch_ahead(block[r], kPrefetchBytes, sizeof(Block));
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) dot[r][t].start(a + 4 * t);
  }
#pragma GCC unroll kInt8Unroll
  for (int v = 0; v < 4; ++v) {
    U8x64 low[R], high[R];
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) block[r]->code_pair(v, low[r], high[r]);
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) {
      const I8x4 a_low = I8x4::load(a + 4 * (T + v * T + t));
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) dot[r][t].add(low[r], a_low);
    }
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) {
      const I8x4 a_high = I8x4::load(a + 4 * (T + (v + 4) * T + t));
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) dot[r][t].add(high[r], a_high);
    }
  }
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    const F32x16 scale = block[r]->scale();
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) sum[r][t] = fma(dot[r][t].finish(a + 4 * t), scale, sum[r][t]);
  }
}

template <class Block, int R, int T>
void int8_tile(const Int8Tile& tile) {
  const auto out = [first = reinterpret_cast<uint8_t*>(tile.out), stride = tile.out_stride](int r, int t) {
    return reinterpret_cast<float*>(first + static_cast<size_t>(t) * stride) + kPanelRows * r;
  };
  if (tile.from_zero)
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) F32x16::zero().store(out(r, t));

  const uint8_t* w = tile.blocks;
  const uint8_t* a = tile.activations;
  for (int64_t group = 0; group < tile.n_groups; ++group) {
    const uint8_t* token_scales = a;
    a += 4 * T;
    F32x16 sum[R][T];
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t] = F32x16::zero();
    }
    for (int64_t b = 0; b < tile.group_blocks; ++b, w += sizeof(Block), a += 36 * T) {
      int8_block<Block>(w, tile.panel_stride, a, sum);
      if constexpr (!Block::kStreamed) prefetch_ahead(a, tile.next_activations, 36 * T);
    }
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) {
      const F32x16 token_scale = F32x16::broadcast(load_f32(token_scales + 4 * t));
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) fma(sum[r][t], token_scale, F32x16::load(out(r, t))).store(out(r, t));
    }
  }
}

/// int8_tile of n_tokens (1 to T) tokens.
template <class Block, int R, int T = kInt8Tokens>
void int8_tile_of(int64_t n_tokens, const Int8Tile& tile) {
  if constexpr (T > 1)
    if (n_tokens < T) return int8_tile_of<Block, R, T - 1>(n_tokens, tile);
  int8_tile<Block, R, T>(tile);
}

template <class Block>
struct Int8Matmul {
  static size_t panel_bytes(int64_t k) {
    return (static_cast<size_t>(k / kBlockColumns) * sizeof(Block) + 63) / 64 * 64;
  }

  static void pack(const void* rows, size_t row_stride, int n_rows, int64_t k, void* panel) {
    const size_t used = n_rows < kPanelRows ? 0 : static_cast<size_t>(k / kBlockColumns) * sizeof(Block);
    memset(static_cast<uint8_t*>(panel) + used, 0, panel_bytes(k) - used);
    auto* blocks = static_cast<Block*>(panel);
    const auto* file = static_cast<const uint8_t*>(rows);
    for (int64_t b = 0; b < k / kBlockColumns; ++b)
      for (int r = 0; r < n_rows; ++r)
        blocks[b].set_row(r, file + static_cast<size_t>(r) * row_stride + static_cast<size_t>(b) * Block::kFileBytes);
  }

  static void unpack(const void* panel, int n_rows, int64_t k, void* rows, size_t row_stride) {
    const auto* blocks = static_cast<const Block*>(panel);
    auto* file = static_cast<uint8_t*>(rows);
    for (int64_t b = 0; b < k / kBlockColumns; ++b)
      for (int r = 0; r < n_rows; ++r)
        blocks[b].get_row(r, file + static_cast<size_t>(r) * row_stride + static_cast<size_t>(b) * Block::kFileBytes);
  }

  static void dequantize_row(const void* panel, int row, int64_t k, float* out) {
    const auto* blocks = static_cast<const Block*>(panel);
    UnpackedBlock<Block> unpacked;
    for (int64_t b = 0; b < k / kBlockColumns; ++b) {
      unpacked.unpack(blocks[b]);
      for (int i = 0; i < kBlockColumns; ++i)
        out[b * kBlockColumns + i] =
            unpacked.scales[row] * static_cast<float>(unpacked.codes[i / 4][4 * row + i % 4] - Block::kOffset);
    }
  }

  static void pack_activations(const float* x, size_t x_stride, int64_t k, int64_t n_tokens, int64_t begin, int64_t end,
                               void* packed) {
    constexpr int kSeed = BlockDot<Block::kMaxCode>::kBias - Block::kOffset;
    quantize_activations(x, x_stride, k, n_tokens, begin, end, kSeed, static_cast<uint8_t*>(packed));
  }

  static void multiply(const void* panels, int64_t n_rows, int64_t k, const void* packed, int64_t n_tokens,
                       int64_t begin, int64_t end, float* out, size_t out_stride) {
    const Job job = {.k = k,
                     .packed = static_cast<const uint8_t*>(packed),
                     .n_tokens = n_tokens,
                     .begin = begin,
                     .end = end,
                     .out_stride = out_stride};
    const auto* w = static_cast<const uint8_t*>(panels);
    // The chains of one token and two panels are too few to hide the latency of a dot product.
    if (end - begin == 1) multiply_all<kInt8DecodePanels>(job, w, n_rows, out);
    multiply_all<kInt8Panels>(job, w, n_rows, out);
    multiply_all<1>(job, w, n_rows, out);
    if (n_rows > 0) multiply_partial_panel(job, w, static_cast<int>(n_rows), out);
  }

 private:
  // Columns whose unpacked blocks stay in the L1 cache while all tokens pass: 18 KB per panel pair.
  static constexpr int64_t kUnpackColumns = 512;
  // Unpacking a block costs about as much as it saves in two tiles.
  static constexpr int64_t kUnpackTiles = 3;

  struct Job {
    int64_t k;
    const uint8_t* packed;
    int64_t n_tokens, begin, end;
    size_t out_stride;

    int64_t tile_tokens(int64_t t) const { return n_tokens - t < kInt8Tokens ? n_tokens - t : kInt8Tokens; }
    /// The tile of tokens from t on, columns from `column` on (multiple of the group).
    Int8Tile tile(int64_t t, int64_t column, int64_t n_columns, const uint8_t* blocks, size_t panel_stride,
                  float* tile_out, size_t tile_out_stride) const {
      const int64_t group = activation_group(k);
      const size_t before = static_cast<size_t>(tile_tokens(t)) * activation_bytes_per_token(k, column);
      return {.blocks = blocks,
              .panel_stride = panel_stride,
              .activations = packed + static_cast<size_t>(t) * activation_bytes_per_token(k, k) + before,
              .next_activations = kInt8Tokens * activation_bytes_per_token(k, k),
              .n_groups = n_columns / group,
              .group_blocks = group / kBlockColumns,
              .out = tile_out,
              .out_stride = tile_out_stride,
              .from_zero = column == 0};
    }
    float* out_of(float* out, int64_t t) const {
      return reinterpret_cast<float*>(reinterpret_cast<uint8_t*>(out) + static_cast<size_t>(t) * out_stride);
    }
  };

  /// R panels at a time, as long as there are as many; moves on to the rest.
  template <int R>
  static void multiply_all(const Job& job, const uint8_t*& w, int64_t& n_rows, float*& out) {
    for (; n_rows >= R * kPanelRows; n_rows -= R * kPanelRows) {
      multiply_panels<R>(job, w, out);
      w += R * panel_bytes(job.k);
      out += R * kPanelRows;
    }
  }

  template <int R>
  static void multiply_panels(const Job& job, const uint8_t* w, float* out) {
    if constexpr (R > kInt8Panels) {  // one token
      int8_tile<Block, R, 1>(
          job.tile(job.begin, 0, job.k, w, panel_bytes(job.k), job.out_of(out, job.begin), job.out_stride));
    } else if (job.end - job.begin >= kUnpackTiles * kInt8Tokens) {
      multiply_unpacked<R>(job, w, out);
    } else {
      for (int64_t t = job.begin; t < job.end; t += kInt8Tokens)
        int8_tile_of<Block, R>(job.tile_tokens(t),
                               job.tile(t, 0, job.k, w, panel_bytes(job.k), job.out_of(out, t), job.out_stride));
    }
  }

  template <int R>
  static void multiply_unpacked(const Job& job, const uint8_t* w, float* out) {
    constexpr int64_t kBlocks = kUnpackColumns / kBlockColumns;
    UnpackedBlock<Block> unpacked[R][kBlocks];
    for (int64_t column = 0; column < job.k; column += kUnpackColumns) {
      const int64_t n_columns = job.k - column < kUnpackColumns ? job.k - column : kUnpackColumns;
      for (int r = 0; r < R; ++r) {
        const auto* blocks =
            reinterpret_cast<const Block*>(w + static_cast<size_t>(r) * panel_bytes(job.k)) + column / kBlockColumns;
        for (int64_t b = 0; b < n_columns / kBlockColumns; ++b) {
          prefetch_ahead(blocks + b, kPrefetchBytes, sizeof(Block));
          unpacked[r][b].unpack(blocks[b]);
        }
      }
      for (int64_t t = job.begin; t < job.end; t += kInt8Tokens)
        int8_tile_of<UnpackedBlock<Block>, R>(job.tile_tokens(t),
                                              job.tile(t, column, n_columns, reinterpret_cast<const uint8_t*>(unpacked),
                                                       sizeof unpacked[0], job.out_of(out, t), job.out_stride));
    }
  }

  /// The last panel where it has fewer than 16 rows: tiles go to a buffer of whole panels first.
  static void multiply_partial_panel(const Job& job, const uint8_t* w, int n_rows, float* out) {
    alignas(64) float whole[kInt8Tokens][kPanelRows];
    for (int64_t t = job.begin; t < job.end; t += kInt8Tokens) {
      int8_tile_of<Block, 1>(job.tile_tokens(t),
                             job.tile(t, 0, job.k, w, panel_bytes(job.k), whole[0], sizeof whole[0]));
      for (int64_t i = 0; i < job.tile_tokens(t); ++i)
        memcpy(job.out_of(out, t + i), whole[i], static_cast<size_t>(n_rows) * sizeof(float));
    }
  }
};

template <class Block>
constexpr PanelFormat int8_panel_format() {
  using Matmul = Int8Matmul<Block>;
  return {.panel_bytes = Matmul::panel_bytes,
          .pack = Matmul::pack,
          .unpack = Matmul::unpack,
          .dequantize_row = Matmul::dequantize_row,
          .activation_bytes = activation_bytes,
          .pack_activations = Matmul::pack_activations,
          .token_tile = kInt8Tokens,
          .multiply = Matmul::multiply};
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
