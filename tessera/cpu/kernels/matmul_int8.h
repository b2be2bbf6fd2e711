// Matrix multiplication for quantized weights by exact int8 dot products: the template for matmul_<format>.cpp. A
// format is a struct of unpack/*.h.
//
// Activations are quantized per group of G columns to x = d * q, q in [-127, 127]. Per output, 32-column blocks and
// groups ascending:
//   s = fma(float(sum over the block of (code - offset) * q), scale, s)    from s = 0 in each group
//       (formats with a scale per 16 columns: likewise for each half)
//   s = fma(min, float(sum of q), s)                                       in formats with a minimum
//   out = fma(s, d, out)                                                   from out = 0
// Every tile shape and every division into calls computes exactly this chain, so results do not depend on the division.
// The offset is not subtracted from the codes. Instead, the integer sum starts at -offset * sum(q).
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/int8_tile.h"
#include "tessera/cpu/kernels/table.h"
#if defined(TESSERA_ISA_TILES)
#include "tessera/cpu/kernels/matmul_tiles.h"
#endif

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

template <class Block>
struct Int8Matmul {
  static constexpr BlockSums kSums = kSumsOf<Block>;

  static size_t panel_bytes(int64_t k) { return (block_bytes(k) + 63) / 64 * 64; }

  static void pack(const void* rows, size_t row_stride, int n_rows, int64_t k, void* panel) {
    const size_t used = n_rows < kPanelRows ? 0 : block_bytes(k);
    memset(static_cast<uint8_t*>(panel) + used, 0, panel_bytes(k) - used);
    auto* blocks = static_cast<Block*>(panel);
    const auto* file = static_cast<const uint8_t*>(rows);
    for (int64_t b = 0; b < k / Block::kColumns; ++b)
      for (int r = 0; r < n_rows; ++r)
        blocks[b].set_row(r, file + static_cast<size_t>(r) * row_stride + static_cast<size_t>(b) * Block::kFileBytes);
  }

  static void unpack(const void* panel, int n_rows, int64_t k, void* rows, size_t row_stride) {
    const auto* blocks = static_cast<const Block*>(panel);
    auto* file = static_cast<uint8_t*>(rows);
    for (int64_t b = 0; b < k / Block::kColumns; ++b)
      for (int r = 0; r < n_rows; ++r)
        blocks[b].get_row(r, file + static_cast<size_t>(r) * row_stride + static_cast<size_t>(b) * Block::kFileBytes);
  }

  static void dequantize_row(const void* panel, int row, int64_t k, float* out) {
    const auto* blocks = static_cast<const Block*>(panel);
    UnpackedBlock<Block, false> unpacked;
    for (int64_t b = 0; b < k / kBlockColumns; ++b) {
      unpacked.unpack(blocks[b / kPartsOf<Block>], static_cast<int>(b % kPartsOf<Block>));
      for (int i = 0; i < kBlockColumns; ++i) out[b * kBlockColumns + i] = value_of(unpacked, row, i);
    }
  }

  static void dequantize_panel(const void* panel, int64_t k, float* out) {
    const auto* blocks = static_cast<const Block*>(panel);
    UnpackedBlock<Block, false> unpacked;
    for (int64_t b = 0; b < k / kBlockColumns; ++b) {
      unpacked.unpack(blocks[b / kPartsOf<Block>], static_cast<int>(b % kPartsOf<Block>));
      for (int i = 0; i < kBlockColumns; ++i, out += kPanelRows)
        for (int row = 0; row < kPanelRows; ++row) out[row] = value_of(unpacked, row, i);
    }
  }

  static void multiply(const void* panels, int64_t n_rows, const ActivationShape& shape, const void* packed,
                       int64_t begin, int64_t end, float* out, size_t out_stride) {
    const Job job = {.k = shape.k,
                     .group = activation_group(shape),
                     .packed = static_cast<const uint8_t*>(packed),
                     .n_tokens = shape.n_tokens,
                     .begin = begin,
                     .end = end,
                     .out_stride = out_stride};
    const auto* w = static_cast<const uint8_t*>(panels);
    if (!unpacks_first(end - begin)) {
      multiply_in_tiles(job, w, n_rows, out);
    } else {
#if defined(TESSERA_ISA_TILES)
      return TileMatmul<Block, UnpackedBlock<Block, false>, kSums>({.panels = w,
                                                                    .panel_bytes = panel_bytes(shape.k),
                                                                    .n_rows = n_rows,
                                                                    .k = shape.k,
                                                                    .group = job.group,
                                                                    .packed = job.packed,
                                                                    .n_tokens = job.n_tokens,
                                                                    .begin = begin,
                                                                    .end = end,
                                                                    .out = out,
                                                                    .out_stride = out_stride})
          .run();
#else
      if constexpr (!kAlwaysInTiles) {
        multiply_unpacked_panels<kInt8Panels>(job, w, n_rows, out);
        if constexpr (kInt8Panels > 1) multiply_unpacked_panels<1>(job, w, n_rows, out);
      }
#endif
    }
    if (n_rows > 0) multiply_partial_panel(job, w, static_cast<int>(n_rows), out);
  }

 private:
  // The number of columns whose unpacked blocks stay in the L1 cache for all tokens: 18 KB per panel pair.
  static constexpr int64_t kUnpackColumns = 512;

  // The most tokens of a tile of one panel. Products of signed levels (Q3_K) are too expensive for larger tiles.
  static constexpr bool kHasSignedLevels = [] {
    if constexpr (HasFactors<Block>) return Block::kLevelOffset != 0;
    return false;
  }();
  static constexpr int kTileTokens = kHasSignedLevels && kPanelTokens > kLevelTokens ? kLevelTokens : kPanelTokens;

  // Large tiles unpack codes of low cost themselves, for any number of tokens.
  static constexpr bool kAlwaysInTiles =
      !kHasTileUnit && Block::kUnpackCost == UnpackCost::low && kPanelTokens > kInt8Tokens;
  // With more tiles than this, it is faster to unpack columns once, before all tiles.
  static constexpr int64_t kMostTiles = Block::kUnpackCost == UnpackCost::high ? 1 : 2;

  /// Whether a call with these tokens unpacks columns before it multiplies. A tile unit takes all that is more than a
  /// tile of registers.
  static bool unpacks_first(int64_t n_tokens) {
    return kHasTileUnit ? n_tokens > kInt8Tokens : !kAlwaysInTiles && n_tokens > kMostTiles * kTileTokens;
  }

  /// Column i of a row of a block.
  static float value_of(const UnpackedBlock<Block, false>& unpacked, int row, int i) {
    const int code = unpacked.vectors[i / 4][4 * row + i % 4] - Block::kOffset;
    float value = unpacked.scales[Block::kScales == 2 ? i / 16 : 0][row] * static_cast<float>(code);
    if constexpr (Block::kMins > 0) value += unpacked.mins[Block::kMins == 2 ? i / 16 : 0][row];
    return value;
  }

  struct Job {
    int64_t k, group;
    const uint8_t* packed;
    int64_t n_tokens, begin, end;
    size_t out_stride;

    /// The number of tokens in the packed tile from token t on.
    int64_t packed_tokens(int64_t t) const { return n_tokens - t < kTokenTile ? n_tokens - t : kTokenTile; }
    /// The number of tokens in the tile of one panel from token t on: whole packed tiles.
    int64_t panel_tokens(int64_t t) const {
      return end - t <= kTileTokens ? end - t : kTileTokens / kInt8Tokens * kInt8Tokens;
    }
    /// The tile of tokens from t on and n_columns columns from `column` on (a multiple of the group).
    Int8Tile tile(int64_t t, int64_t column, int64_t n_columns, const uint8_t* blocks, size_t panel_stride,
                  float* tile_out, size_t tile_out_stride) const {
      const size_t token_bytes = activation_bytes_per_token(kSums, group, k);
      const size_t before = static_cast<size_t>(packed_tokens(t)) * activation_bytes_per_token(kSums, group, column);
      return {.blocks = blocks,
              .panel_stride = panel_stride,
              .activations = packed + static_cast<size_t>(t) * token_bytes + before,
              .next_activations = kTokenTile * token_bytes,
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

  /// Panel by panel, in memory order. Several panels at once would hide the latency of their sums better, but a core
  /// reads one stream at full speed and four at two thirds of it. The first tile reads a panel from memory, others from
  /// the L2 cache.
  static void multiply_in_tiles(const Job& job, const uint8_t*& w, int64_t& n_rows, float*& out) {
    const size_t bytes = panel_bytes(job.k);
    for (; n_rows >= kPanelRows; n_rows -= kPanelRows) {
      for (int64_t t = job.begin; t < job.end; t += job.panel_tokens(t))
        int8_tile_of<Block, 1, kTileTokens>(job.panel_tokens(t),
                                            job.tile(t, 0, job.k, w, bytes, job.out_of(out, t), job.out_stride));
      w += bytes;
      out += kPanelRows;
    }
  }

  /// Many tokens: R panels at a time. Advances w, n_rows and out to the remaining panels, fewer than R.
  template <int R>
  static void multiply_unpacked_panels(const Job& job, const uint8_t*& w, int64_t& n_rows, float*& out) {
    for (; n_rows >= R * kPanelRows; n_rows -= R * kPanelRows) {
      multiply_unpacked<R>(job, w, out);
      w += R * panel_bytes(job.k);
      out += R * kPanelRows;
    }
  }

  template <int R>
  static void multiply_unpacked(const Job& job, const uint8_t* w, float* out) {
    constexpr int64_t kBlocks = kUnpackColumns / kBlockColumns;
    UnpackedBlock<Block> unpacked[R][kBlocks];
    const size_t panel = panel_bytes(job.k);
    for (int64_t column = 0; column < job.k; column += kUnpackColumns) {
      const int64_t n_columns = job.k - column < kUnpackColumns ? job.k - column : kUnpackColumns;
      const uint8_t* const blocks = w + block_bytes(column);
      for (int r = 0; r < R; ++r) unpack_columns(blocks + static_cast<size_t>(r) * panel, n_columns, unpacked[r]);

      const bool is_last = column + n_columns == job.k;
      NextWeights<R> next(is_last ? w + R * panel : blocks + block_bytes(n_columns), panel, block_bytes(n_columns),
                          (job.end - job.begin + kInt8Tokens - 1) / kInt8Tokens);
      for (int64_t t = job.begin; t < job.end; t += kInt8Tokens) {
        next.prefetch();
        int8_tile_of<UnpackedBlock<Block>, R, kInt8Tokens>(
            job.packed_tokens(t), job.tile(t, column, n_columns, reinterpret_cast<const uint8_t*>(unpacked),
                                           sizeof unpacked[0], job.out_of(out, t), job.out_stride));
      }
    }
  }

  static size_t block_bytes(int64_t n_columns) {
    return static_cast<size_t>(n_columns / Block::kColumns) * sizeof(Block);
  }
  static void unpack_columns(const uint8_t* panel, int64_t n_columns, UnpackedBlock<Block>* to) {
    const auto* blocks = reinterpret_cast<const Block*>(panel);
    for (int64_t b = 0; b < n_columns / kBlockColumns; ++b)
      to[b].unpack(blocks[b / kPartsOf<Block>], static_cast<int>(b % kPartsOf<Block>));
  }

  /// Multiplies a last panel of fewer than 16 rows: tiles are computed in a buffer for a whole panel.
  static void multiply_partial_panel(const Job& job, const uint8_t* w, int n_rows, float* out) {
    alignas(64) float whole[kTileTokens][kPanelRows];
    for (int64_t t = job.begin; t < job.end; t += job.panel_tokens(t)) {
      int8_tile_of<Block, 1, kTileTokens>(job.panel_tokens(t),
                                          job.tile(t, 0, job.k, w, panel_bytes(job.k), whole[0], sizeof whole[0]));
      for (int64_t i = 0; i < job.panel_tokens(t); ++i)
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
          .dequantize_panel = Matmul::dequantize_panel,
          .activation_bytes = activation_bytes<Matmul::kSums>,
          .pack_activations = quantize_activations<Matmul::kSums>,
          .token_tile = kTokenTile,
          .default_group = kDefaultGroup<Block>,
          .multiply = Matmul::multiply};
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
