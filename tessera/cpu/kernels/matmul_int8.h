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
//
// A format struct holds sixteen rows of one block of the file, and has:
//   kColumns, kFileBytes       of one row's block in the file
//   kMaxCode, kOffset          codes in the panel are 0 to kMaxCode; a weight is scale * (code - kOffset) + min
//   kScales                    scales per 32 columns: 1, or 2 (one per 16 columns)
//   kMins                      minima per 32 columns: 0, 1 or 2; kOffset is 0 if there are any
//   kTilesUnpack               whether tiles read codes one vector at a time, with low() and high(), or unpack 32
//                              columns at a time, with codes()
//   low(part, v), high(part, v)    columns 4v to 4v+3, and 16 later, of the 32 columns `part`
//   codes(part, to)            all eight vectors
//   scale(part, half), min(part, half)
//   set_row(row, file), get_row(row, file)   one row's block of the file
// Codes of a format with integer scales of 16 columns (Q2_K, Q3_K) are products: level times factor. The format also
// has
//   kMaxLevel, kLevelOffset    of levels; code - kOffset = (level - kLevelOffset) * factor
//   levels(part, v)            v from 0 to 7; like low() and high(), without the factor
//   factors(part, half)        the factors of 16 columns
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/int8_activations.h"
#include "tessera/cpu/kernels/int8_dot.h"
#include "tessera/cpu/kernels/table.h"
#if defined(TESSERA_ISA_TILES)
#include "tessera/cpu/kernels/matmul_tiles.h"
#endif

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The number of 32-column parts in a block of a format.
template <class Block>
inline constexpr int kPartsOf = Block::kColumns / kBlockColumns;

/// The default number of columns that share an activation scale. One group per block is the most accurate
/// (docs/quality.md), and costs nothing for formats with one dot product per block and no minimum. A minimum would cost
/// one more operation per output, and a second dot product too many registers. Those formats have larger groups.
template <class Block>
inline constexpr int64_t kDefaultGroup = Block::kScales == 1 && Block::kMins == 0 ? kBlockColumns : 128;

template <class Block>
concept HasFactors = requires {
  Block::kMaxLevel;
};

/// A format's levels as codes.
template <class Block>
struct LevelsOf {
  static constexpr int kMaxCode = Block::kMaxLevel, kOffset = Block::kLevelOffset;
  static constexpr int kScales = 2, kMins = Block::kMins;
};

/// The dot products of a format: with codes, or with levels of 16 columns at a time.
template <class Block>
struct DotOf {
  using type = BlockDot<Block>;
};
template <HasFactors Block>
struct DotOf<Block> {
  using type = BlockDot<LevelsOf<Block>>;
};

/// The scales and minima of 32 unpacked columns. They are arrays: GCC 12 copies vectors in structs by halves, and waits
/// for each copy.
template <class Block>
struct alignas(64) UnpackedScales {
  static constexpr int kColumns = kBlockColumns;
  static constexpr int kScales = Block::kScales, kMins = Block::kMins;
  static constexpr bool kTilesUnpack = true;

  float scales[kScales][16];
  float mins[kMins > 0 ? kMins : 1][16];

  [[gnu::always_inline]] void unpack_scales(const Block& block, int part) {
    for (int i = 0; i < kScales; ++i) block.scale(part, i).store(scales[i]);
    if constexpr (kMins > 0)
      for (int i = 0; i < kMins; ++i) block.min(part, i).store(mins[i]);
  }
  F32x16 scale(int /*part*/, int half) const { return F32x16::load(scales[half]); }
  F32x16 min(int /*part*/, int half) const { return F32x16::load(mins[half]); }
};

/// 32 unpacked columns of any format. Tiles read it if many tokens share the unpacking.
template <class Block, bool kHasLevels = HasFactors<Block> && !kUnpacksProducts>
struct UnpackedBlock : UnpackedScales<Block> {
  static constexpr int kMaxCode = Block::kMaxCode, kOffset = Block::kOffset;

  uint8_t vectors[8][64];

  [[gnu::always_inline]] void unpack(const Block& block, int part) {
    if constexpr (Block::kTilesUnpack) {
      for (int v = 0; v < 4; ++v) {
        block.low(part, v).store(vectors[v]);
        block.high(part, v).store(vectors[v + 4]);
      }
    } else {
      block.codes(part, vectors);
    }
    this->unpack_scales(block, part);
  }
  U8x64 low(int /*part*/, int v) const { return U8x64::load(vectors[v]); }
  U8x64 high(int /*part*/, int v) const { return U8x64::load(vectors[v + 4]); }
};

/// The same, with levels and their factors instead of their products.
template <class Block>
struct UnpackedBlock<Block, true> : UnpackedScales<Block> {
  static constexpr int kMaxLevel = Block::kMaxLevel, kLevelOffset = Block::kLevelOffset;

  uint8_t vectors[8][64];
  I32x16 factors_of_half[2];

  [[gnu::always_inline]] void unpack(const Block& block, int part) {
    for (int v = 0; v < 8; ++v) block.levels(part, v).store(vectors[v]);
    for (int half = 0; half < 2; ++half) factors_of_half[half] = block.factors(part, half);
    this->unpack_scales(block, part);
  }
  U8x64 levels(int /*part*/, int v) const { return U8x64::load(vectors[v]); }
  I32x16 factors(int /*part*/, int half) const { return factors_of_half[half]; }
};

/// Whether blocks are read from memory, so that prefetching the next ones pays off. Unpacked blocks are in the cache.
template <class Block>
inline constexpr bool kIsStreamed = true;
template <class Block, bool kHasLevels>
inline constexpr bool kIsStreamed<UnpackedBlock<Block, kHasLevels>> = false;

/// The starts of a kind of dot products, for each of a block's scales.
template <class Dot>
constexpr DotStarts starts_of(int n_scales) {
  if (Dot::kStart == StartKind::none) return {.n = 0, .kind = StartKind::none, .factor = 0};
  return {.n = n_scales, .kind = Dot::kStart, .factor = Dot::kFactor};
}

/// The sums of activations that a format needs: factors of its minima, and starts of its dot products. Few tokens are
/// multiplied by levels, and many by codes if kUnpacksProducts.
template <class Block>
inline constexpr BlockSums kSumsOf = {
    .n_floats = Block::kMins, .codes = starts_of<BlockDot<Block>>(Block::kScales), .levels = {}};
template <HasFactors Block>
inline constexpr BlockSums kSumsOf<Block> = {
    .n_floats = Block::kMins,
    .codes = kUnpacksProducts ? starts_of<BlockDot<Block>>(Block::kScales) : DotStarts{},
    .levels = starts_of<BlockDot<LevelsOf<Block>>>(2)};
template <class Block, bool kHasLevels>
inline constexpr BlockSums kSumsOf<UnpackedBlock<Block, kHasLevels>> = kSumsOf<Block>;

/// The work of a tile: R panels times T tokens over some groups of columns. Strides are in bytes.
struct Int8Tile {
  const uint8_t* blocks;  // the first panel's first block; the blocks of a panel are contiguous
  size_t panel_stride;
  const uint8_t* activations;  // the tile's first group
  size_t next_activations;     // bytes from `activations` to those of the next tile
  int64_t n_groups;
  int64_t group_blocks;
  float* out;  // the first panel's 16 outputs of the first token
  size_t out_stride;
  bool from_zero;  // false: adds to `out`

  /// The 16 outputs of panel r for token t.
  float* out_of(int r, int t) const {
    auto* token = reinterpret_cast<uint8_t*>(out) + static_cast<size_t>(t) * out_stride;
    return reinterpret_cast<float*>(token) + kPanelRows * r;
  }
};

/// Adds 32 columns of R panels times T tokens to the sums of their group. `a` points to the block's sums.
template <class Block, int R, int T>
[[gnu::always_inline]] inline void add_block(const Block* const (&block)[R], int part, const uint8_t* a,
                                             F32x16 (&sum)[R][T]) {
  constexpr BlockSums kSums = kSumsOf<Block>;
  const uint8_t* codes = a + 4 * kSums.n_words() * T;
  constexpr bool kByLevels = HasFactors<Block>, kHasHalves = Block::kScales == 2 || kByLevels;
  constexpr int kFirstStart = kSums.n_floats + (kByLevels ? kSums.codes.n : 0);
  const auto start_word = [a](int half, int t) { return a + 4 * ((kFirstStart + half) * T + t); };
  const auto activation = [codes](int v, int t) { return I8x4::load(codes + 4 * (v * T + t)); };
  typename DotOf<Block>::type dot[R][T];
  [[maybe_unused]] I32x16 scaled[R][T];  // by levels: the sum of the first half
  const auto start = [&](int half) __attribute__((always_inline)) {
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) dot[r][t].start(start_word(half, t));
    }
  };
  const auto finish = [&](int half) __attribute__((always_inline)) {
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      if constexpr (kByLevels) {
        const Factors factors = make_factors(block[r]->factors(part, half));
        const F32x16 scale = block[r]->scale(part, 0);
        TESSERA_UNROLL
        for (int t = 0; t < T; ++t) {
          if (half == 0)
            scaled[r][t] = dot[r][t].scaled(factors);
          else
            sum[r][t] = fma(to_f32(add(scaled[r][t], dot[r][t].scaled(factors))), scale, sum[r][t]);
        }
      } else {
        const F32x16 scale = block[r]->scale(part, half);
        TESSERA_UNROLL
        for (int t = 0; t < T; ++t) sum[r][t] = fma(dot[r][t].finish(start_word(half, t)), scale, sum[r][t]);
      }
    }
  };
  const auto load_low = [&](int r, int v) __attribute__((always_inline)) {
    if constexpr (kByLevels)
      return block[r]->levels(part, v);
    else
      return block[r]->low(part, v);
  };
  const auto load_high = [&](int r, int v) __attribute__((always_inline)) {
    if constexpr (kByLevels)
      return block[r]->levels(part, v + 4);
    else
      return block[r]->high(part, v);
  };
  const auto multiply = [&](const U8x64(&w)[R], int v) __attribute__((always_inline)) {
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) {
      const I8x4 x = activation(v, t);
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) dot[r][t].add(w[r], x);
    }
  };

  start(0);
#pragma GCC unroll kInt8Unroll
  for (int v = 0; v < 4; ++v) {
    U8x64 low[R], high[R];
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      low[r] = load_low(r, v);
      if constexpr (!kHasHalves) high[r] = load_high(r, v);
    }
    multiply(low, v);
    if constexpr (!kHasHalves) multiply(high, v + 4);
  }
  finish(0);
  if constexpr (kHasHalves) {
    start(1);
#pragma GCC unroll kInt8Unroll
    for (int v = 0; v < 4; ++v) {
      U8x64 high[R];
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) high[r] = load_high(r, v);
      multiply(high, v + 4);
    }
    finish(1);
  }
  if constexpr (Block::kMins > 0) {
    TESSERA_UNROLL
    for (int half = 0; half < Block::kMins; ++half) {
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        const F32x16 min = block[r]->min(part, half);
        TESSERA_UNROLL
        for (int t = 0; t < T; ++t)
          sum[r][t] = fma(min, F32x16::broadcast(load_f32(a + 4 * (half * T + t))), sum[r][t]);
      }
    }
  }
}

/// Calls add_block() for the i-th 32 columns from `w` on; panels are panel_stride bytes apart.
template <class Block, int R, int T>
[[gnu::always_inline]] inline void int8_block(const uint8_t* w, size_t panel_stride, int64_t i, const uint8_t* a,
                                              F32x16 (&sum)[R][T]) {
  constexpr int kParts = kPartsOf<Block>;
  const auto part = static_cast<int>(i % kParts);
  const Block* block[R];
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    block[r] = reinterpret_cast<const Block*>(w + static_cast<size_t>(r) * panel_stride) + i / kParts;
    if constexpr (kIsStreamed<Block>) {
      constexpr size_t kPartBytes = sizeof(Block) / kParts;
      prefetch_ahead(block[r], kPrefetchBytes + static_cast<size_t>(part) * kPartBytes, kPartBytes);
    }
  }
  if constexpr (Block::kTilesUnpack) {
    add_block<Block, R, T>(block, part, a, sum);
  } else if constexpr (T == 1) {
    // One panel after the other: the codes are used once and stay in registers.
#pragma GCC unroll 1
    for (int r = 0; r < R; ++r) {
      UnpackedBlock<Block> unpacked;
      unpacked.unpack(*block[r], part);
      const UnpackedBlock<Block>* const source[1] = {&unpacked};
      F32x16 own[1][1] = {{sum[r][0]}};
      add_block<UnpackedBlock<Block>, 1, 1>(source, 0, a, own);
      sum[r][0] = own[0][0];
    }
  } else {
    UnpackedBlock<Block> unpacked[R];
    const UnpackedBlock<Block>* source[R];
    for (int r = 0; r < R; ++r) {
      unpacked[r].unpack(*block[r], part);
      source[r] = &unpacked[r];
    }
    add_block<UnpackedBlock<Block>, R, T>(source, 0, a, sum);
  }
}

/// int8_tile() for one group per block. The outputs stay in registers that sums over several blocks would need.
template <class Block, int R, int T>
void int8_tile_by_block(const Int8Tile& tile) {
  F32x16 total[R][T];
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) total[r][t] = tile.from_zero ? F32x16::zero() : F32x16::load(tile.out_of(r, t));
  }
  constexpr size_t kBlockBytes = kSumsOf<Block>.block_bytes() * T;
  const uint8_t* a = tile.activations;
  for (int64_t i = 0; i < tile.n_groups; ++i) {
    const uint8_t* token_scales = a;
    a += 4 * T;
    F32x16 sum[R][T];
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t] = F32x16::zero();
    }
    int8_block<Block>(tile.blocks, tile.panel_stride, i, a, sum);
    if constexpr (!kIsStreamed<Block>) prefetch_ahead(a, tile.next_activations, kBlockBytes);
    a += kBlockBytes;
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) {
      const F32x16 token_scale = F32x16::broadcast(load_f32(token_scales + 4 * t));
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) total[r][t] = fma(sum[r][t], token_scale, total[r][t]);
    }
  }
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) total[r][t].store(tile.out_of(r, t));
  }
}

template <class Block, int R, int T>
void int8_tile(const Int8Tile& tile) {
  if constexpr (kDefaultGroup<Block> == kBlockColumns)
    if (tile.group_blocks == 1) return int8_tile_by_block<Block, R, T>(tile);
  if (tile.from_zero)
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) F32x16::zero().store(tile.out_of(r, t));

  constexpr size_t kBlockBytes = kSumsOf<Block>.block_bytes() * T;
  const uint8_t* a = tile.activations;
  int64_t i = 0;
  for (int64_t group = 0; group < tile.n_groups; ++group) {
    const uint8_t* token_scales = a;
    a += 4 * T;
    F32x16 sum[R][T];
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t] = F32x16::zero();
    }
    for (const int64_t end = i + tile.group_blocks; i < end; ++i, a += kBlockBytes) {
      int8_block<Block>(tile.blocks, tile.panel_stride, i, a, sum);
      if constexpr (!kIsStreamed<Block>) prefetch_ahead(a, tile.next_activations, kBlockBytes);
    }
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) {
      const F32x16 token_scale = F32x16::broadcast(load_f32(token_scales + 4 * t));
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) fma(sum[r][t], token_scale, F32x16::load(tile.out_of(r, t))).store(tile.out_of(r, t));
    }
  }
}

/// Calls int8_tile() for n_tokens (1 to T) tokens.
template <class Block, int R, int T = kInt8Tokens>
void int8_tile_of(int64_t n_tokens, const Int8Tile& tile) {
  if constexpr (T > 1)
    if (n_tokens < T) return int8_tile_of<Block, R, T - 1>(n_tokens, tile);
  int8_tile<Block, R, T>(tile);
}

template <class Block>
struct Int8Matmul {
  static constexpr BlockSums kSums = kSumsOf<Block>;

  static size_t panel_bytes(int64_t k) {
    return (static_cast<size_t>(k / Block::kColumns) * sizeof(Block) + 63) / 64 * 64;
  }

  static void pack(const void* rows, size_t row_stride, int n_rows, int64_t k, void* panel) {
    const size_t used = n_rows < kPanelRows ? 0 : static_cast<size_t>(k / Block::kColumns) * sizeof(Block);
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
    if (has_many_tokens(end - begin)) {
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
      multiply_unpacked_panels<kInt8Panels>(job, w, n_rows, out);
      if constexpr (kInt8Panels > 1) multiply_unpacked_panels<1>(job, w, n_rows, out);
#endif
    } else {
      multiply_streamed_panels(job, w, n_rows, out);
    }
    if (n_rows > 0) multiply_partial_panel(job, w, static_cast<int>(n_rows), out);
  }

 private:
  // The number of columns whose unpacked blocks stay in the L1 cache for all tokens: 18 KB per panel pair.
  static constexpr int64_t kUnpackColumns = 512;
  // The number of tiles from which unpacking first is faster. Unpacking a block costs about as much as it saves in two
  // tiles, unless every tile would have to unpack anyway.
  static constexpr int64_t kUnpackTiles = Block::kTilesUnpack ? 3 : 2;

  /// Whether a call with these tokens unpacks blocks before it multiplies. A tile unit takes all that is more than a
  /// tile of registers.
  static bool has_many_tokens(int64_t n_tokens) {
    return kHasTileUnit ? n_tokens > kInt8Tokens : n_tokens >= kUnpackTiles * kInt8Tokens;
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

    int64_t tile_tokens(int64_t t) const { return n_tokens - t < kTokenTile ? n_tokens - t : kTokenTile; }
    /// The tile of tokens from t on and n_columns columns from `column` on (a multiple of the group).
    Int8Tile tile(int64_t t, int64_t column, int64_t n_columns, const uint8_t* blocks, size_t panel_stride,
                  float* tile_out, size_t tile_out_stride) const {
      const size_t token_bytes = activation_bytes_per_token(kSums, group, k);
      const size_t before = static_cast<size_t>(tile_tokens(t)) * activation_bytes_per_token(kSums, group, column);
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

  /// Few tokens: panel by panel, in memory order. Several panels at once would hide the latency of their sums better,
  /// but a core reads one stream at full speed and four at two thirds of it.
  static void multiply_streamed_panels(const Job& job, const uint8_t*& w, int64_t& n_rows, float*& out) {
    for (; n_rows >= kPanelRows; n_rows -= kPanelRows) {
      for (int64_t t = job.begin; t < job.end; t += kInt8Tokens)
        int8_tile_of<Block, 1>(job.tile_tokens(t),
                               job.tile(t, 0, job.k, w, panel_bytes(job.k), job.out_of(out, t), job.out_stride));
      w += panel_bytes(job.k);
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
    for (int64_t column = 0; column < job.k; column += kUnpackColumns) {
      const int64_t n_columns = job.k - column < kUnpackColumns ? job.k - column : kUnpackColumns;
      for (int r = 0; r < R; ++r) {
        constexpr int kParts = kPartsOf<Block>;
        const auto* blocks =
            reinterpret_cast<const Block*>(w + static_cast<size_t>(r) * panel_bytes(job.k)) + column / Block::kColumns;
        for (int64_t b = 0; b < n_columns / kBlockColumns; ++b) {
          if (b % kParts == 0) prefetch_ahead(blocks + b / kParts, kPrefetchBytes, sizeof(Block));
          unpacked[r][b].unpack(blocks[b / kParts], static_cast<int>(b % kParts));
        }
      }
      for (int64_t t = job.begin; t < job.end; t += kInt8Tokens)
        int8_tile_of<UnpackedBlock<Block>, R>(job.tile_tokens(t),
                                              job.tile(t, column, n_columns, reinterpret_cast<const uint8_t*>(unpacked),
                                                       sizeof unpacked[0], job.out_of(out, t), job.out_stride));
    }
  }

  /// Multiplies a last panel of fewer than 16 rows: tiles are computed in a buffer for a whole panel.
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
          .dequantize_panel = Matmul::dequantize_panel,
          .activation_bytes = activation_bytes<Matmul::kSums>,
          .pack_activations = quantize_activations<Matmul::kSums>,
          .token_tile = kTokenTile,
          .default_group = kDefaultGroup<Block>,
          .multiply = Matmul::multiply};
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
