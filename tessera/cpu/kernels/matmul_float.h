// Matrix multiplication for weights that are plain floats (f32, f16, bf16).
//
// A panel holds, column by column, the 16 values of its rows. Packed activations are 4-byte words, stored in tiles of
// kFloatTokens tokens (the last tile has the remaining tokens). Word i of the tokens of a tile are side by side.
//
// Element is a struct with the type of one stored value (Stored) and load(), which reads a column of a panel as 16
// floats. Products is the arithmetic: FloatProducts below, or Int16Products (matmul_int16.h).
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// kFloatPanels x kFloatTokens: the largest tile. Its accumulators, the weights and a broadcast fill the registers.
// kFloatChains: the product of panels and tokens that hides the latency of an FMA (4 cycles, two per cycle), for few
// tokens.
#if defined(TESSERA_ISA_avx512)
inline constexpr int kFloatPanels = 2, kFloatTokens = 12, kFloatChains = 8;
#elif defined(TESSERA_ISA_avx2)
inline constexpr int kFloatPanels = 1, kFloatTokens = 6, kFloatChains = 3;  // a panel is two vectors
#else
inline constexpr int kFloatPanels = 1, kFloatTokens = 2, kFloatChains = 1;
#endif

inline constexpr size_t kWordBytes = 4;  // of packed activations

struct FloatTile {
  const uint8_t* weights;  // the first panel's first column
  size_t panel_stride;     // bytes
  const uint8_t* x;        // the tile's first column
  size_t next_x = 0;       // bytes from x to the activations of the next tile, if they should be prefetched
  int64_t n_columns;
  float* out;  // the first panel's 16 outputs of the first token
  size_t out_stride;
  bool from_zero;  // false: adds to `out`

  float* out_of(int r, int t) const {
    return reinterpret_cast<float*>(reinterpret_cast<uint8_t*>(out) + static_cast<size_t>(t) * out_stride) +
           kPanelRows * r;
  }
};

/// Calls Products::multiply() for n_tokens (1 to T) tokens whose tile has R or more panels. Source: the form of
/// weights.
template <class Products, class Source, int R, int T = kFloatTokens>
void float_tile_of(int64_t n_tokens, const FloatTile& tile) {
  if constexpr (T > 1)
    if (n_tokens < T || R > Products::tile_panels(T)) return float_tile_of<Products, Source, R, T - 1>(n_tokens, tile);
  if constexpr (R <= Products::tile_panels(T)) Products::template multiply<Source, R, T>(tile);
}

/// Transposes elements [column, column + n) of n_rows rows (both at most 16) to consecutive columns of n_rows elements.
/// n_room: the number of elements from `columns` on that may be overwritten.
inline void pack_block(const uint8_t* rows, size_t row_stride, int n_rows, int64_t column, int n, float* columns,
                       int64_t n_room) {
  F32x16 block[kLanes];
  for (int r = 0; r < n_rows; ++r) {
    const auto* row = reinterpret_cast<const float*>(rows + static_cast<size_t>(r) * row_stride) + column;
    block[r] = n == kLanes ? F32x16::load(row) : F32x16::load_partial(row, n);
  }
  for (int r = n_rows; r < kLanes; ++r) block[r] = F32x16::zero();
  transpose(block);
  for (int c = 0; c < n; ++c) {
    // The next columns overwrite the lanes past n_rows. A partial store takes many times as long on AMD's CPUs.
    if (c * n_rows + kLanes <= n_room) {
      block[c].store(columns + c * n_rows);
    } else {
      block[c].store_partial(columns + c * n_rows, n_rows);
    }
  }
}

/// Packs n_rows rows (at most 16) of k elements as k consecutive columns.
inline void pack_columns(const uint8_t* rows, size_t row_stride, int n_rows, int64_t k, float* columns) {
  constexpr int kFewRows = 4;  // with so few rows, a block would be mostly empty
  if (n_rows < kFewRows) {
    for (int r = 0; r < n_rows; ++r) {
      const auto* row = reinterpret_cast<const float*>(rows + static_cast<size_t>(r) * row_stride);
      for (int64_t i = 0; i < k; ++i) columns[i * n_rows + r] = row[i];
    }
    return;
  }
  for (int64_t column = 0; column < k; column += kLanes)
    pack_block(rows, row_stride, n_rows, column, static_cast<int>(k - column < kLanes ? k - column : kLanes),
               columns + column * n_rows, (k - column) * n_rows);
}

/// Products in f32: weights are converted to f32 exactly. Each output is one chain out = fma(w, x, out) from out = 0,
/// with columns ascending. The chain is the same for every tile shape and every division into calls.
struct FloatProducts {
  /// The number of panels of a tile of n_tokens; a power of two.
  static constexpr int tile_panels(int64_t n_tokens) {
    int panels = kFloatPanels;
    while (panels * n_tokens < kFloatChains) panels *= 2;
    return panels;
  }

  /// Panels of a tile of few tokens, if panels are read from memory.
  static constexpr int kStreamedPanels = 2;

  /// Words of the packed activations of a token's first n_columns.
  static constexpr int64_t words(int64_t n_columns) { return n_columns; }
  static void pack(const uint8_t* rows, size_t row_stride, int n_rows, int64_t k, uint8_t* words) {
    pack_columns(rows, row_stride, n_rows, k, reinterpret_cast<float*>(words));
  }

  template <class Source, int R, int T>
  static void multiply(const FloatTile& tile) {
    constexpr size_t kColumnBytes = kPanelRows * sizeof(typename Source::Stored);
    F32x16 sum[R][T];
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t] = tile.from_zero ? F32x16::zero() : F32x16::load(tile.out_of(r, t));
    }

    const uint8_t* w = tile.weights;
    const auto* x = reinterpret_cast<const float*>(tile.x);
    const size_t panel_stride = tile.panel_stride;
    for (int64_t column = 0; column < tile.n_columns; ++column) {
      F32x16 weights[R];
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        const uint8_t* p = w + static_cast<size_t>(r) * panel_stride;
        prefetch_ahead(p, kPrefetchBytes, kColumnBytes);
        weights[r] = Source::load(p);
      }
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) {
        const F32x16 value = F32x16::broadcast(x[t]);
        TESSERA_UNROLL
        for (int r = 0; r < R; ++r) sum[r][t] = fma(weights[r], value, sum[r][t]);
      }
      w += kColumnBytes;
      x += T;
    }
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) sum[r][t].store(tile.out_of(r, t));
    }
  }

  /// A source of weights: a panel as it is stored.
  template <class Element>
  using Stored = Element;
  /// Converts no weights before it multiplies. One conversion for 12 tokens costs less than to store what it gives.
  static constexpr int64_t kMostStoredTiles = INT64_MAX;
};

/// How panels are stored.
template <class Element>
struct FloatPanels {
  using Stored = typename Element::Stored;

  static size_t panel_bytes(int64_t k) { return (static_cast<size_t>(k) * kPanelRows * sizeof(Stored) + 63) / 64 * 64; }

  static void pack(const void* rows, size_t row_stride, int n_rows, int64_t k, void* panel) {
    const size_t used = n_rows < kPanelRows ? 0 : static_cast<size_t>(k) * kPanelRows * sizeof(Stored);
    memset(static_cast<uint8_t*>(panel) + used, 0, panel_bytes(k) - used);
    if constexpr (sizeof(Stored) == sizeof(float)) {
      if (n_rows == kPanelRows)
        return pack_columns(static_cast<const uint8_t*>(rows), row_stride, n_rows, k, static_cast<float*>(panel));
    }
    auto* columns = static_cast<Stored*>(panel);
    constexpr int64_t kChunk = 64 / sizeof(Stored);  // a cache line of each row at a time
    for (int64_t column = 0; column < k; column += kChunk) {
      const int64_t chunk_end = k - column < kChunk ? k : column + kChunk;
      for (int r = 0; r < n_rows; ++r) {
        const uint8_t* row = static_cast<const uint8_t*>(rows) + static_cast<size_t>(r) * row_stride;
        for (int64_t i = column; i < chunk_end; ++i)
          memcpy(columns + i * kPanelRows + r, row + static_cast<size_t>(i) * sizeof(Stored), sizeof(Stored));
      }
    }
  }

  static void unpack(const void* panel, int n_rows, int64_t k, void* rows, size_t row_stride) {
    const auto* columns = static_cast<const Stored*>(panel);
    for (int r = 0; r < n_rows; ++r) {
      uint8_t* row = static_cast<uint8_t*>(rows) + static_cast<size_t>(r) * row_stride;
      for (int64_t i = 0; i < k; ++i)
        memcpy(row + static_cast<size_t>(i) * sizeof(Stored), columns + i * kPanelRows + r, sizeof(Stored));
    }
  }

  static void dequantize_row(const void* panel, int row, int64_t k, float* out) {
    const auto* column = static_cast<const uint8_t*>(panel);
    float values[kPanelRows];
    for (int64_t i = 0; i < k; ++i, column += sizeof(Stored) * kPanelRows) {
      Element::load(column).store(values);
      out[i] = values[row];
    }
  }
};

/// PanelFormat::activation_bytes.
template <class Products>
size_t float_activation_bytes(const ActivationShape& shape) {
  return (static_cast<size_t>(shape.n_tokens * Products::words(shape.k)) * kWordBytes + 63) / 64 * 64;
}

/// PanelFormat::pack_activations. All formats with the same Products share packed activations.
template <class Products>
void pack_float_activations(const float* x, size_t x_stride, const ActivationShape& shape, int64_t begin, int64_t end,
                            void* packed) {
  const auto token_bytes = static_cast<size_t>(Products::words(shape.k)) * kWordBytes;
  for (int64_t first = begin; first < end; first += kFloatTokens) {
    const int64_t n_tile = shape.n_tokens - first < kFloatTokens ? shape.n_tokens - first : kFloatTokens;
    Products::pack(reinterpret_cast<const uint8_t*>(x) + static_cast<size_t>(first) * x_stride, x_stride,
                   static_cast<int>(n_tile), shape.k,
                   static_cast<uint8_t*>(packed) + static_cast<size_t>(first) * token_bytes);
  }
}

template <class Element, class Products>
struct FloatMatmul {
  static void multiply(const void* panels, int64_t n_rows, const ActivationShape& shape, const void* packed,
                       int64_t begin, int64_t end, float* out, size_t out_stride) {
    if (begin >= end) return;
    Job job = {.w = static_cast<const uint8_t*>(panels),
               .n_rows = n_rows,
               .k = shape.k,
               .packed = static_cast<const uint8_t*>(packed),
               .n_tokens = shape.n_tokens,
               .begin = begin,
               .end = end,
               .out = out,
               .out_stride = out_stride};
    if (job.n_tiles() > Products::kMostStoredTiles) {
      if constexpr (Products::kMostStoredTiles < INT64_MAX) multiply_converted<kFloatPanels>(job);
    } else if (panel_bytes(job.k) > kCachedPanelBytes) {
      multiply_stored<Products::kStreamedPanels>(job);
    } else {
      multiply_stored<Products::tile_panels(1)>(job);
    }
    if (job.n_rows > 0) multiply_partial_panel(job);
  }

 private:
  using Stored = typename Products::template Stored<Element>;

  static size_t panel_bytes(int64_t k) { return FloatPanels<Element>::panel_bytes(k); }

  // Larger panels are read from memory, where a core reads few streams at full speed and eight at two thirds of it.
  // Matrices with smaller panels may be in a cache, where the number of independent chains limits the speed.
  static constexpr size_t kCachedPanelBytes = 16384;
  // The bytes of weights that several tiles read one after the other. They stay in the L2 cache. Smaller parts store
  // and load the outputs more often (measured: 32 KB are 3 % slower, 128 KB as fast).
  static constexpr size_t kPartBytes = 65536;
  static constexpr size_t kColumnBytes = kPanelRows * sizeof(typename Element::Stored);

  /// The remaining work of one multiply().
  struct Job {
    const uint8_t* w;
    int64_t n_rows, k;
    const uint8_t* packed;
    int64_t n_tokens, begin, end;
    float* out;
    size_t out_stride;

    int64_t n_tiles() const { return (end - begin + kFloatTokens - 1) / kFloatTokens; }
    int64_t tile_tokens(int64_t t) const { return n_tokens - t < kFloatTokens ? n_tokens - t : kFloatTokens; }
    /// The packed activations of the tile from token t on, from a column on.
    const uint8_t* x_of(int64_t t, int64_t column = 0) const {
      return packed +
             static_cast<size_t>(t * Products::words(k) + tile_tokens(t) * Products::words(column)) * kWordBytes;
    }
    float* out_of(int64_t t) const {
      return reinterpret_cast<float*>(reinterpret_cast<uint8_t*>(out) + static_cast<size_t>(t) * out_stride);
    }
    void advance(int n_panels) {
      w += static_cast<size_t>(n_panels) * panel_bytes(k);
      n_rows -= n_panels * kPanelRows;
      out += n_panels * kPanelRows;
    }
  };

  /// Multiplies whole panels as they are stored: R panels at a time if the tiles are small enough, then fewer.
  template <int R>
  static void multiply_stored(Job& job) {
    constexpr int64_t kPartColumns = kPartBytes / (R * kColumnBytes);
    const int64_t most_columns = job.n_tiles() > 1 ? kPartColumns : job.k;
    const int64_t most_tokens = job.tile_tokens(job.begin);
    for (; R <= Products::tile_panels(most_tokens) && job.n_rows >= R * kPanelRows; job.advance(R))
      for (int64_t column = 0; column < job.k; column += most_columns)
        for (int64_t t = job.begin; t < job.end; t += kFloatTokens)
          float_tile_of<Products, Stored, R>(
              job.tile_tokens(t), {.weights = job.w + static_cast<size_t>(column) * kColumnBytes,
                                   .panel_stride = panel_bytes(job.k),
                                   .x = job.x_of(t, column),
                                   .n_columns = job.k - column < most_columns ? job.k - column : most_columns,
                                   .out = job.out_of(t),
                                   .out_stride = job.out_stride,
                                   .from_zero = column == 0});
    if constexpr (R > 1) multiply_stored<R / 2>(job);
  }

  /// Multiplies whole panels by many tokens: converts a part of R panels, then multiplies it by all tokens.
  template <int R>
  static void multiply_converted(Job& job) {
    constexpr int64_t kPartColumns = Products::kConvertedColumns;
    constexpr size_t kConvertedBytes = Products::converted_bytes(kPartColumns);
    alignas(64) uint8_t converted[R][kConvertedBytes];
    const size_t panel = panel_bytes(job.k);
    for (; job.n_rows >= R * kPanelRows; job.advance(R)) {
      for (int64_t column = 0; column < job.k; column += kPartColumns) {
        const bool is_last = job.k - column <= kPartColumns;
        const int64_t n_columns = is_last ? job.k - column : kPartColumns;
        const size_t bytes = static_cast<size_t>(n_columns) * kColumnBytes;
        const uint8_t* const weights = job.w + static_cast<size_t>(column) * kColumnBytes;
        for (int r = 0; r < R; ++r)
          Products::template convert<Element>(weights + static_cast<size_t>(r) * panel, n_columns, converted[r]);
        NextWeights<R> next(is_last ? job.w + R * panel : weights + bytes, panel, bytes, job.n_tiles());
        for (int64_t t = job.begin; t < job.end; t += kFloatTokens) {
          next.prefetch();
          float_tile_of<Products, typename Products::Converted, R>(
              job.tile_tokens(t), {.weights = converted[0],
                                   .panel_stride = kConvertedBytes,
                                   .x = job.x_of(t, column),
                                   .next_x = static_cast<size_t>(kFloatTokens * Products::words(job.k)) * kWordBytes,
                                   .n_columns = n_columns,
                                   .out = job.out_of(t),
                                   .out_stride = job.out_stride,
                                   .from_zero = column == 0});
        }
      }
    }
    if constexpr (R > 1) multiply_converted<R / 2>(job);
  }

  /// Multiplies a last panel of fewer than 16 rows: tiles are computed in a buffer for a whole panel.
  static void multiply_partial_panel(const Job& job) {
    alignas(64) float whole[kFloatTokens][kPanelRows];
    for (int64_t t = job.begin; t < job.end; t += kFloatTokens) {
      float_tile_of<Products, Stored, 1>(job.tile_tokens(t), {.weights = job.w,
                                                              .panel_stride = 0,
                                                              .x = job.x_of(t),
                                                              .n_columns = job.k,
                                                              .out = whole[0],
                                                              .out_stride = sizeof whole[0],
                                                              .from_zero = true});
      for (int64_t i = 0; i < job.tile_tokens(t); ++i)
        memcpy(job.out_of(t + i), whole[i], static_cast<size_t>(job.n_rows) * sizeof(float));
    }
  }
};

template <class Element, class Products = FloatProducts>
constexpr PanelFormat float_panel_format() {
  using Panels = FloatPanels<Element>;
  return {.panel_bytes = Panels::panel_bytes,
          .pack = Panels::pack,
          .unpack = Panels::unpack,
          .dequantize_row = Panels::dequantize_row,
          .dequantize_panel = nullptr,
          .activation_bytes = float_activation_bytes<Products>,
          .pack_activations = pack_float_activations<Products>,
          .token_tile = kFloatTokens,
          .default_group = 128,
          .multiply = FloatMatmul<Element, Products>::multiply};
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
