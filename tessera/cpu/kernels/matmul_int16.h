// Products of 16-bit floats in 16-bit integers: the arithmetic for FloatMatmul (matmul_float.h) in matmul_int16.cpp.
//
// Each group of 64 columns of a weight row, and of a token, becomes codes (int16_codes.h). So a group has an exact sum
// of products of codes. Each output is one chain out = fma(float(sum) * unit of w, unit of x, out) from out = 0, with
// groups ascending. The last group may be shorter.
//
// The packed activations of a tile of T tokens: for each group T units, then T words of each of its pairs of columns.
#pragma once

#include "tessera/cpu/kernels/int16_codes.h"
#include "tessera/cpu/kernels/matmul_float.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

struct Int16Products {
  static constexpr int kGroupColumns = 64;
  static constexpr float kLimit = largest_code(kGroupColumns);

  static constexpr int tile_panels(int64_t /*n_tokens*/) { return kFloatPanels; }
  /// Panels of a tile of few tokens, if panels are read from memory.
  static constexpr int kStreamedPanels = 1;

  static constexpr int64_t words(int64_t n_columns) {
    return (n_columns + kGroupColumns - 1) / kGroupColumns + (n_columns + 1) / 2;
  }
  static void pack(const uint8_t* rows, size_t row_stride, int n_rows, int64_t k, uint8_t* words) {
    for (int r = 0; r < n_rows; ++r) {
      const auto* row = reinterpret_cast<const float*>(rows + static_cast<size_t>(r) * row_stride);
      auto* word = reinterpret_cast<int32_t*>(words) + r;
      for (int64_t column = 0; column < k; column += kGroupColumns) {
        const int n_columns = group_columns(k, column);
        const float unit = encode_floats(row + column, n_columns, kLimit, word + n_rows, n_rows);
        memcpy(word, &unit, sizeof unit);
        word += (1 + n_pairs(n_columns)) * n_rows;
      }
    }
  }

  // A source of weights: codes of a group of a panel.

  /// A group as it is stored, padded to pairs of columns. Codes are computed as they are multiplied.
  template <class Element>
  class Stored {
   public:
    static constexpr bool kStreamed = true;  // tiles read it from memory
    static constexpr size_t bytes(int n_columns) {
      return static_cast<size_t>(n_columns) * kPanelRows * sizeof(typename Element::Stored);
    }

    // A pass of its own. Memory is slower if lines of the next group are read between products (docs/kernels.md).
    void start(const uint8_t* group, int n_columns) {
      const auto load = [](const uint16_t* column) { return Element::load(reinterpret_cast<const uint8_t*>(column)); };
      group_ = group;
      encoder_ = Encoder(as_floats(largest_of_pairs(group, n_pairs(n_columns), load)), kLimit);
    }
    F32x16 unit() const { return encoder_.unit; }
    I32x16 pair(int i) const {
      const uint8_t* p = group_ + bytes(2 * i);
      prefetch_ahead(p, kPrefetchBytes, bytes(2));
      return encoder_.pair(Element::load(p), Element::load(p + bytes(1)));
    }

   private:
    const uint8_t* group_;
    Encoder encoder_;
  };

  /// A group of codes: the units, then the pairs of columns.
  class Converted {
   public:
    static constexpr bool kStreamed = false;
    static constexpr size_t bytes(int n_columns) { return kVectorBytes * static_cast<size_t>(1 + n_pairs(n_columns)); }

    void start(const uint8_t* group, int /*n_columns*/) { units_ = group; }
    F32x16 unit() const { return F32x16::load(reinterpret_cast<const float*>(units_)); }
    I32x16 pair(int i) const { return I32x16::load(units_ + static_cast<size_t>(1 + i) * kVectorBytes); }

   private:
    const uint8_t* units_;
  };

  /// The most tiles that compute codes as they multiply. More of them share codes, which stay in the L1 cache.
#if defined(TESSERA_ISA_avx512)
  static constexpr int64_t kMostStoredTiles = 5;
#else
  static constexpr int64_t kMostStoredTiles = 2;
#endif
  /// Columns of a panel that are converted at a time: 17 KB.
  static constexpr int64_t kConvertedColumns = 512;
  static constexpr size_t converted_bytes(int64_t n_columns) {
    size_t bytes = 0;
    for (int64_t column = 0; column < n_columns; column += kGroupColumns)
      bytes += Converted::bytes(group_columns(n_columns, column));
    return bytes;
  }
  template <class Element>
  static void convert(const uint8_t* columns, int64_t n_columns, uint8_t* out) {
    for (int64_t column = 0; column < n_columns; column += kGroupColumns) {
      const int n = group_columns(n_columns, column);
      Stored<Element> group;
      group.start(columns, n);
      group.unit().store(reinterpret_cast<float*>(out));
      for (int i = 0; i < n_pairs(n); ++i) group.pair(i).store(out + static_cast<size_t>(1 + i) * kVectorBytes);
      columns += group.bytes(n);
      out += Converted::bytes(n);
    }
  }

  template <class Source, int R, int T>
  static void multiply(const FloatTile& tile) {
    const uint8_t* w = tile.weights;
    const auto* x = reinterpret_cast<const int32_t*>(tile.x);
    // Not in `out`, whose rows may share one set of the L1 cache.
    F32x16 total[R][T];
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) total[r][t] = tile.from_zero ? F32x16::zero() : F32x16::load(tile.out_of(r, t));
    }
    for (int64_t column = 0; column < tile.n_columns; column += kGroupColumns) {
      const int n_columns = group_columns(tile.n_columns, column);
      Source groups[R];
      I32x16 sum[R][T];
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        groups[r].start(w + static_cast<size_t>(r) * tile.panel_stride, n_columns);
        TESSERA_UNROLL
        for (int t = 0; t < T; ++t) sum[r][t] = I32x16::zero();
      }
      const int32_t* const units = x;
      x += T;
      for (int i = 0; i < n_pairs(n_columns); ++i) {
        I32x16 weights[R];
        TESSERA_UNROLL
        for (int r = 0; r < R; ++r) weights[r] = groups[r].pair(i);
        TESSERA_UNROLL
        for (int t = 0; t < T; ++t) {
          const I32x16 value = I32x16::broadcast(x[t]);
          TESSERA_UNROLL
          for (int r = 0; r < R; ++r) sum[r][t] = add_pairs(sum[r][t], weights[r], value);
        }
        if constexpr (!Source::kStreamed) prefetch_ahead(x, tile.next_x, T * kWordBytes);
        x += T;
      }
      F32x16 unit[R];
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) unit[r] = groups[r].unit();
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) {
        const F32x16 unit_of_x = as_floats(I32x16::broadcast(units[t]));
        TESSERA_UNROLL
        for (int r = 0; r < R; ++r) total[r][t] = fma(mul(to_f32(sum[r][t]), unit[r]), unit_of_x, total[r][t]);
      }
      w += Source::bytes(n_columns);
    }
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      TESSERA_UNROLL
      for (int t = 0; t < T; ++t) total[r][t].store(tile.out_of(r, t));
    }
  }

 private:
  static constexpr size_t kVectorBytes = kLanes * sizeof(float);

  static constexpr int group_columns(int64_t n_columns, int64_t column) {
    return n_columns - column < kGroupColumns ? static_cast<int>(n_columns - column) : kGroupColumns;
  }
  static constexpr int n_pairs(int n_columns) { return (n_columns + 1) / 2; }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
