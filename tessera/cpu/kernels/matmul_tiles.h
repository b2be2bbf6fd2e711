// Integer products with many tokens on the tile unit. Used by matmul_int8.h, in the sets amx and amxmodel.
//
// A tile of sums has 16 rows of a weight panel and up to 16 tokens. It adds up the columns that share a weight scale,
// exactly in int32. The float operations that follow are those of matmul_int8.h in the same order, with tokens in the
// lanes of vectors instead of rows. So all bits are the same as in the other sets.
//
// Packed activations have the layout that the unit needs: a word for each token, of four consecutive columns. Weights
// are unpacked to rows of bytes, minus their offset where the difference fits a signed byte.
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/int8_activations.h"
#include "tessera/cpu/kernels/tile_unit.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// 64 unpacked columns of a panel: two blocks, each with its scales.
template <class Unpacked>
struct TileColumns {
  static constexpr int kScales = Unpacked::kScales, kMins = Unpacked::kMins;
  static constexpr bool kIsSigned = Unpacked::kMaxCode - Unpacked::kOffset <= 127;

  alignas(64) uint8_t rows[kPanelRows][2 * kBlockColumns];
  float scales[2][kScales][kPanelRows];
  float mins[2][kMins > 0 ? kMins : 1][kPanelRows];

  /// The columns of two blocks; n_blocks is 1 if there is no second one.
  void set(const Unpacked (&blocks)[2], int n_blocks) {
    F32x16 words[16];  // of bytes, only moved
    for (int b = 0; b < 2; ++b) {
      const Unpacked& block = blocks[b < n_blocks ? b : 0];
      memcpy(scales[b], block.scales, sizeof scales[b]);
      if constexpr (kMins > 0) memcpy(mins[b], block.mins, sizeof mins[b]);
      for (int v = 0; v < 8; ++v) words[8 * b + v] = F32x16::load(reinterpret_cast<const float*>(block.vectors[v]));
    }
    transpose(words);
    for (int row = 0; row < kPanelRows; ++row) {
      words[row].store(reinterpret_cast<float*>(rows[row]));
      if constexpr (kIsSigned && Unpacked::kOffset != 0)
        add(U8x64::load(rows[row]), broadcast_u8(-Unpacked::kOffset)).store(rows[row]);
    }
  }
};

/// Products of one panel with one tile of tokens, by groups of columns.
template <class Unpacked, BlockSums kSums>
class TileProduct {
 public:
  using Columns = TileColumns<Unpacked>;

  /// The shapes for tiles of n_tokens.
  static TileConfig config(int n_tokens) {
    TileConfig config;
    for (int half = 0; half < kScales; ++half) config.set(half, kPanelRows, 4 * n_tokens);
    config.set(kWeights, kPanelRows, kScaleColumns);
    config.set(kActivations, kScaleColumns / 4, 4 * n_tokens);
    return config;
  }

  /// Sums of the tile unit: of even and odd blocks, and of the scales of a block.
  struct alignas(64) Sums {
    int32_t of_block[2][Columns::kScales][kPanelRows][16] = {};
  };

  /// columns: of n_groups groups of group_blocks blocks. activations: of the first group, packed in a tile of n_tokens.
  TileProduct(const Columns* columns, const uint8_t* activations, int n_tokens, int64_t n_groups, int64_t group_blocks,
              Sums& sums)
      : columns_(columns),
        activations_(activations),
        n_tokens_(n_tokens),
        n_groups_(n_groups),
        group_blocks_(group_blocks),
        token_bytes_(4 * static_cast<size_t>(n_tokens)),
        block_bytes_(kSums.block_bytes() * static_cast<size_t>(n_tokens)),
        group_bytes_(token_bytes_ + block_bytes_ * static_cast<size_t>(group_blocks)),
        sums_(sums) {}

  /// Adds the products to totals[row][token].
  void add_to(float (&totals)[kPanelRows][16]) {
    F32x16 total[kPanelRows];
    TESSERA_UNROLL
    for (int row = 0; row < kPanelRows; ++row) total[row] = F32x16::load(totals[row]);
    const int64_t n_blocks = n_groups_ * group_blocks_;
    add_up(0);
    int64_t block = 0;
    for (int64_t group = 0; group < n_groups_; ++group) {
      F32x16 sum[kPanelRows];
      TESSERA_UNROLL
      for (int row = 0; row < kPanelRows; ++row) sum[row] = F32x16::zero();
      for (const int64_t end = block + group_blocks_; block < end; ++block) {
        if (block + 1 < n_blocks) add_up(block + 1);  // the tile unit works on it meanwhile
        scale(block, sum);
      }
      const F32x16 token_scales = words_of(activations_ + static_cast<size_t>(group) * group_bytes_);
      TESSERA_UNROLL
      for (int row = 0; row < kPanelRows; ++row) total[row] = fma(sum[row], token_scales, total[row]);
    }
    TESSERA_UNROLL
    for (int row = 0; row < kPanelRows; ++row) total[row].store(totals[row]);
  }

 private:
  static constexpr int kScales = Columns::kScales, kMins = Columns::kMins;
  static constexpr int kScaleColumns = kBlockColumns / kScales;  // that share a scale
  // Tiles: of sums 0, and 1 if a block has two scales.
  static constexpr int kWeights = 2, kActivations = 3;

  F32x16 words_of(const uint8_t* words) const {
    if (n_tokens_ == 16) return F32x16::load(reinterpret_cast<const float*>(words));
    return F32x16::load_partial(reinterpret_cast<const float*>(words), n_tokens_);
  }
  const uint8_t* block_of(int64_t block) const {
    return activations_ + static_cast<size_t>(block / group_blocks_) * group_bytes_ + token_bytes_ +
           static_cast<size_t>(block % group_blocks_) * block_bytes_;
  }

  // Adds up the products of a block's columns in integers.
  void add_up(int64_t block) {
    const uint8_t* words = block_of(block);
    add_up_half<0>(block, words);
    if constexpr (kScales == 2) add_up_half<1>(block, words);
  }
  template <int kHalf>
  void add_up_half(int64_t block, const uint8_t* words) {
    const uint8_t* rows = &columns_[block / 2].rows[0][block % 2 * kBlockColumns + kHalf * kScaleColumns];
    const uint8_t* codes = words + (kSums.n_words() + kHalf * kScaleColumns / 4) * token_bytes_;
    if constexpr (Columns::kIsSigned)
      TileUnit::clear<kHalf>();
    else
      TileUnit::load<kHalf>(words + (kSums.n_floats + kHalf) * token_bytes_, 0);  // the offset times the activations
    TileUnit::load<kWeights>(rows, 2 * kBlockColumns);
    TileUnit::load<kActivations>(codes, token_bytes_);
    if constexpr (Columns::kIsSigned)
      TileUnit::add_signed<kHalf, kWeights, kActivations>();
    else
      TileUnit::add_unsigned<kHalf, kWeights, kActivations>();
    auto& sums = sums_.of_block[block % 2][kHalf];
    TileUnit::store<kHalf>(sums, sizeof sums[0]);
  }

  // sum = fma(float(sum of products), scale, sum), then the minima.
  void scale(int64_t block, F32x16 (&sum)[kPanelRows]) const {
    const Columns& columns = columns_[block / 2];
    TESSERA_UNROLL
    for (int half = 0; half < kScales; ++half) {
      TESSERA_UNROLL
      for (int row = 0; row < kPanelRows; ++row)
        sum[row] = fma(to_f32(I32x16::load(sums_.of_block[block % 2][half][row])),
                       F32x16::broadcast(columns.scales[block % 2][half][row]), sum[row]);
    }
    if constexpr (kMins > 0) {
      TESSERA_UNROLL
      for (int half = 0; half < kMins; ++half) {
        const F32x16 sums_of_activations = words_of(block_of(block) + static_cast<size_t>(half) * token_bytes_);
        TESSERA_UNROLL
        for (int row = 0; row < kPanelRows; ++row)
          sum[row] = fma(F32x16::broadcast(columns.mins[block % 2][half][row]), sums_of_activations, sum[row]);
      }
    }
  }

  const Columns* columns_;
  const uint8_t* activations_;
  const int n_tokens_;
  const int64_t n_groups_, group_blocks_;
  const size_t token_bytes_, block_bytes_, group_bytes_;
  Sums& sums_;
};

/// The arguments of PanelFormat::multiply().
struct TileTask {
  const uint8_t* panels;
  size_t panel_bytes;
  int64_t n_rows, k, group;
  const uint8_t* packed;
  int64_t n_tokens, begin, end;
  float* out;
  size_t out_stride;
};

/// PanelFormat::multiply() for panels of Block, which Unpacked unpacks 32 columns at a time.
template <class Block, class Unpacked, BlockSums kSums>
class TileMatmul {
 public:
  explicit TileMatmul(const TileTask& task) : task_(task) {}

  void run() {
    for (int64_t begin = task_.begin; begin < task_.end; begin += kChunkTokens) {
      const int64_t end = task_.end - begin < kChunkTokens ? task_.end : begin + kChunkTokens;
      for (int64_t row = 0; row < task_.n_rows; row += kPanelRows) multiply_panel(row, begin, end);
    }
    TileUnit::release();
  }

 private:
  using Product = TileProduct<Unpacked, kSums>;
  using Columns = typename Product::Columns;

  static constexpr int64_t kChunkTokens = 512;    // whose sums stay in the L2 cache: 32 KB
  static constexpr int64_t kUnpackColumns = 512;  // whose unpacked columns stay in the L1 cache: 9 KB
  static constexpr int kTiles = kChunkTokens / kTokenTile;

  int tile_tokens(int64_t token) const {
    const int64_t left = task_.n_tokens - token;
    return static_cast<int>(left < kTokenTile ? left : kTokenTile);
  }

  void use_shapes_of(int n_tokens) {
    if (n_tokens == shaped_for_) return;
    TileUnit::configure(Product::config(n_tokens));
    shaped_for_ = n_tokens;
  }

  // Multiplies one panel with tokens [begin, end), at most kChunkTokens.
  void multiply_panel(int64_t row, int64_t begin, int64_t end) {
    alignas(64) float totals[kTiles][kPanelRows][16];
    const uint8_t* panel = task_.panels + static_cast<size_t>(row / kPanelRows) * task_.panel_bytes;
    const size_t token_bytes = activation_bytes_per_token(kSums, task_.group, task_.k);
    for (int64_t column = 0; column < task_.k; column += kUnpackColumns) {
      const int64_t n_columns = task_.k - column < kUnpackColumns ? task_.k - column : kUnpackColumns;
      Columns columns[kUnpackColumns / (2 * kBlockColumns)];
      unpack(reinterpret_cast<const Block*>(panel) + column / Block::kColumns, n_columns / kBlockColumns, columns);
      const size_t before = activation_bytes_per_token(kSums, task_.group, column);
      for (int64_t token = begin; token < end; token += kTokenTile) {
        float(&total)[kPanelRows][16] = totals[(token - begin) / kTokenTile];
        if (column == 0) memset(total, 0, sizeof total);
        const int n = tile_tokens(token);
        use_shapes_of(n);
        const uint8_t* activations =
            task_.packed + static_cast<size_t>(token) * token_bytes + static_cast<size_t>(n) * before;
        Product(columns, activations, n, n_columns / task_.group, task_.group / kBlockColumns, sums_).add_to(total);
      }
    }
    const int64_t left = task_.n_rows - row;
    const int n_rows = static_cast<int>(left < kPanelRows ? left : kPanelRows);
    for (int64_t token = begin; token < end; token += kTokenTile)
      store(totals[(token - begin) / kTokenTile], row, n_rows, token);
  }

  static void unpack(const Block* blocks, int64_t n_blocks, Columns* columns) {
    constexpr int kParts = Block::kColumns / kBlockColumns;
    for (int64_t b = 0; b < n_blocks; b += 2) {
      const int n = n_blocks - b < 2 ? 1 : 2;
      Unpacked both[2];
      for (int i = 0; i < n; ++i) {
        if ((b + i) % kParts == 0) prefetch_ahead(blocks + (b + i) / kParts, kPrefetchBytes, sizeof(Block));
        both[i].unpack(blocks[(b + i) / kParts], static_cast<int>((b + i) % kParts));
      }
      columns[b / 2].set(both, n);
    }
  }

  // Writes the sums [row][token] of a tile to the outputs [token][row].
  void store(const float (&sums)[kPanelRows][16], int64_t row, int n_rows, int64_t token) const {
    F32x16 of_token[16];
    for (int r = 0; r < kPanelRows; ++r) of_token[r] = F32x16::load(sums[r]);
    transpose(of_token);
    for (int t = 0; t < tile_tokens(token); ++t) {
      auto* out = reinterpret_cast<uint8_t*>(task_.out + row) + static_cast<size_t>(token + t) * task_.out_stride;
      of_token[t].store_partial(reinterpret_cast<float*>(out), n_rows);
    }
  }

  const TileTask task_;
  int shaped_for_ = 0;
  typename Product::Sums sums_;
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
