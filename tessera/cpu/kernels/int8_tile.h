// Tiles of the int8 kernels: some panels times some tokens, from the blocks of a weight format. Used by matmul_int8.h,
// which has the order of operations.
//
// A format struct holds sixteen rows of one block of the file, and has:
//   kColumns, kFileBytes       of one row's block in the file
//   kMaxCode, kOffset          codes in the panel are 0 to kMaxCode; a weight is scale * (code - kOffset) + min
//   kScales                    scales per 32 columns: 1, or 2 (one per 16 columns)
//   kMins                      minima per 32 columns: 0, 1 or 2; kOffset is 0 if there are any
//   kUnpackCost                of codes; unless it is high, tiles read one vector at a time
//   low(part, v), high(part, v)    columns 4v to 4v+3, and 16 later, of the 32 columns `part`
//   codes(part, to)            instead, if the cost is high: all eight vectors
//   scale(part, half), min(part, half)
//   set_row(row, file), get_row(row, file)   one row's block of the file
// Codes of a format with integer scales of 16 columns (Q2_K, Q3_K) are products: level times factor. The format also
// has
//   kMaxLevel, kLevelOffset    of levels; code - kOffset = (level - kLevelOffset) * factor
//   levels(part, v)            v from 0 to 7; like low() and high(), without the factor
//   factors(part, half)        the factors of 16 columns
#pragma once

#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/int8_activations.h"
#include "tessera/cpu/kernels/int8_dot.h"

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
  static constexpr UnpackCost kUnpackCost = UnpackCost::low;

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
    if constexpr (Block::kUnpackCost != UnpackCost::high) {
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

/// The packed activations of a tile of T tokens: words of one packed tile, or of two.
template <int T>
struct TileActivations {
  static constexpr int kFirst = T < kTokenTile ? T : kTokenTile, kSecond = T - kFirst;

  const uint8_t* first;
  const uint8_t* second;  // of the other tokens, if there are more than kTokenTile

  /// Word i of token t.
  const uint8_t* word(int i, int t) const {
    return t < kFirst ? first + 4 * (i * kFirst + t) : second + 4 * (i * kSecond + t - kFirst);
  }
  /// Word n becomes word 0.
  void skip(int n) {
    first += 4 * n * kFirst;
    second += 4 * n * kSecond;
  }
};

/// The words of a block of activations, per token.
template <class Block>
inline constexpr int kBlockWords = kSumsOf<Block>.n_words() + kBlockColumns / 4;

/// The work of a tile: R panels times T tokens over some groups of columns. Strides are in bytes.
struct Int8Tile {
  const uint8_t* blocks;  // the first panel's first block; the blocks of a panel are contiguous
  size_t panel_stride;
  const uint8_t* activations;  // the first group of the first packed tile
  size_t next_activations;     // bytes from there to the same columns of the next packed tile
  int64_t n_groups;
  int64_t group_blocks;
  float* out;  // the first panel's 16 outputs of the first token
  size_t out_stride;
  bool from_zero;  // false: adds to `out`

  template <int T>
  TileActivations<T> activations_of() const {
    return {.first = activations, .second = activations + next_activations};
  }
  /// The 16 outputs of panel r for token t.
  float* out_of(int r, int t) const {
    auto* token = reinterpret_cast<uint8_t*>(out) + static_cast<size_t>(t) * out_stride;
    return reinterpret_cast<float*>(token) + kPanelRows * r;
  }
};

/// Adds 32 columns of R panels times T tokens to the sums of their group. Word 0 of `a` is the first of the block's
/// sums.
template <class Block, int R, int T>
[[gnu::always_inline]] inline void add_block(const Block* const (&block)[R], int part, const TileActivations<T>& a,
                                             F32x16 (&sum)[R][T]) {
  constexpr BlockSums kSums = kSumsOf<Block>;
  constexpr bool kByLevels = HasFactors<Block>, kHasHalves = Block::kScales == 2 || kByLevels;
  constexpr int kFirstStart = kSums.n_floats + (kByLevels ? kSums.codes.n : 0);
  constexpr int kFirstCodes = kSums.n_words();
  const auto start_word = [&](int half, int t) { return a.word(kFirstStart + half, t); };
  const auto activation = [&](int v, int t) { return I8x4::load(a.word(kFirstCodes + v, t)); };
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
        for (int t = 0; t < T; ++t) sum[r][t] = fma(min, F32x16::broadcast(load_f32(a.word(half, t))), sum[r][t]);
      }
    }
  }
}

/// The most tokens of a tile that multiplies levels, which takes three registers for each output.
inline constexpr int kLevelTokens = 8;

/// Calls add_block() for the i-th 32 columns from `w` on; panels are panel_stride bytes apart.
template <class Block, int R, int T>
[[gnu::always_inline]] inline void int8_block(const uint8_t* w, size_t panel_stride, int64_t i,
                                              const TileActivations<T>& a, F32x16 (&sum)[R][T]) {
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
  if constexpr (Block::kUnpackCost != UnpackCost::high && !(HasFactors<Block> && T > kLevelTokens)) {
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
  auto a = tile.activations_of<T>();
  for (int64_t i = 0; i < tile.n_groups; ++i) {
    const TileActivations<T> token_scales = a;
    a.skip(1);
    F32x16 sum[R][T];
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t] = F32x16::zero();
    }
    int8_block<Block>(tile.blocks, tile.panel_stride, i, a, sum);
    if constexpr (!kIsStreamed<Block>) prefetch_ahead(a.first, tile.next_activations, 4 * kBlockWords<Block> * T);
    a.skip(kBlockWords<Block>);
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) {
      const F32x16 token_scale = F32x16::broadcast(load_f32(token_scales.word(0, t)));
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

  auto a = tile.activations_of<T>();
  int64_t i = 0;
  for (int64_t group = 0; group < tile.n_groups; ++group) {
    const TileActivations<T> token_scales = a;
    a.skip(1);
    F32x16 sum[R][T];
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t] = F32x16::zero();
    }
    for (const int64_t end = i + tile.group_blocks; i < end; ++i, a.skip(kBlockWords<Block>)) {
      int8_block<Block>(tile.blocks, tile.panel_stride, i, a, sum);
      if constexpr (!kIsStreamed<Block>) prefetch_ahead(a.first, tile.next_activations, 4 * kBlockWords<Block> * T);
    }
    TESSERA_UNROLL
    for (int t = 0; t < T; ++t) {
      const F32x16 token_scale = F32x16::broadcast(load_f32(token_scales.word(0, t)));
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) fma(sum[r][t], token_scale, F32x16::load(tile.out_of(r, t))).store(tile.out_of(r, t));
    }
  }
}

/// Calls int8_tile() for n_tokens (1 to T) tokens.
template <class Block, int R, int T>
void int8_tile_of(int64_t n_tokens, const Int8Tile& tile) {
  if constexpr (T > 1)
    if (n_tokens < T) return int8_tile_of<Block, R, T - 1>(n_tokens, tile);
  int8_tile<Block, R, T>(tile);
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
