// Scores of attention from 16-bit integers, for tasks with `int16` (attention.cpp, its only user).
//
// Queries and keys become codes (int16_codes.h): the largest is 5792 for vectors of 64 elements, 4095 for 128.
#pragma once

#include "tessera/cpu/kernels/attention_tiles.h"
#include "tessera/cpu/kernels/int16_codes.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The largest magnitude of each of a tile's 16 tokens.
template <class Row>
inline F32x16 largest_magnitudes(const char* tile, int dim) {
  if constexpr (Row::kBlock == 1 && Row::bytes(1) == 2) {
    const auto load = [](const void* element) { return Row::load(element, 0); };
    const I32x16 highest = largest_of_pairs(tile, dim / 2, load);
    if (dim % 2 == 0) return as_floats(highest);
    return as_floats(max(highest, magnitude_bits(load(tile + static_cast<size_t>(dim / 2) * kPairBytes))));
  } else {
    I32x16 first_highest = I32x16::zero(), second_highest = first_highest;
    for_each_pair<Row>(tile, dim, [&](int, F32x16 first, F32x16 second) {
      first_highest = max(first_highest, magnitude_bits(first));
      second_highest = max(second_highest, magnitude_bits(second));
    });
    return as_floats(max(first_highest, second_highest));
  }
}

/// Encodes the tiles of a K block that contain any of `tokens` as [tile][pair of elements][16 tokens], and the units of
/// their tokens. If dim is odd, the last element is paired with 0.
template <class Row>
void encode_keys(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, float limit, int32_t* codes,
                 float* units) {
  const int n_pairs = (dim + 1) / 2;
  for (int t = 0; t < kTilesPerBlock; ++t) {
    if (tile_mask(tokens, t) == 0) continue;
    const char* const tile = block + static_cast<size_t>(t) * tile_bytes<Row>(dim);
    prefetch<Row>(tile + ahead, tile_bytes<Row>(dim));
    const Encoder encoder(largest_magnitudes<Row>(tile, dim), limit);
    encoder.unit.store(units + t * kTileTokens);
    int32_t* const out = codes + t * n_pairs * kTileTokens;
    for_each_pair<Row>(tile, dim, [&](int pair, F32x16 first, F32x16 second) {
      encoder.pair(first, second).store(out + pair * kTileTokens);
    });
  }
}

/// Like score_tiles() of attention_tiles.h, for R encoded queries `q_stride` pairs apart, and encoded keys with their
/// units. The unit of a score is that of its query.
template <int R, int C>
inline void score_codes(const int32_t* q, int q_stride, const int32_t* codes, const float* units, const int* tiles,
                        int n_pairs, float* s) {
  I32x16 acc[R][C];
  const int32_t* keys[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) keys[c] = codes + tiles[c] * n_pairs * kTileTokens;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c] = I32x16::zero();
  for (int i = 0; i < n_pairs; ++i) {
    I32x16 k[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) k[c] = I32x16::load(keys[c] + i * kTileTokens);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const I32x16 qi = I32x16::broadcast(q[r * q_stride + i]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = add_pairs(acc[r][c], qi, k[c]);
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    const F32x16 unit = F32x16::load(units + tiles[c] * kTileTokens);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) mul(to_f32(acc[r][c]), unit).store(s + r * kBlockTokens + tiles[c] * kTileTokens);
  }
}

/// Like scores() of attention_tiles.h.
template <int R>
void all_score_codes(const int32_t* q, int q_stride, const int32_t* codes, const float* units, uint64_t tokens,
                     int n_pairs, float* s) {
  for_each_tile_set<tile_vectors(R)>(
      tokens, [&]<int C>(const int* tiles) { score_codes<R, C>(q, q_stride, codes, units, tiles, n_pairs, s); });
}

/// Scores of R encoded queries with the tokens of a stored block, whose codes stay in registers. The fast form for up
/// to one register tile of rows.
template <class Row, int R>
void score_stored(const int32_t* q, int q_stride, const char* block, ptrdiff_t ahead, uint64_t tokens, int dim,
                  float limit, float* s) {
  for (int t = 0; t < kTilesPerBlock; ++t) {
    if (tile_mask(tokens, t) == 0) continue;
    const char* const tile = block + static_cast<size_t>(t) * tile_bytes<Row>(dim);
    prefetch<Row>(tile + ahead, tile_bytes<Row>(dim));
    const Encoder encoder(largest_magnitudes<Row>(tile, dim), limit);
    I32x16 acc[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = I32x16::zero();
    for_each_pair<Row>(tile, dim, [&](int pair, F32x16 first, F32x16 second) {
      const I32x16 keys = encoder.pair(first, second);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[r] = add_pairs(acc[r], I32x16::broadcast(q[r * q_stride + pair]), keys);
    });
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) mul(to_f32(acc[r]), encoder.unit).store(s + r * kBlockTokens + t * kTileTokens);
  }
}

using ScoreCodes = void (*)(const int32_t* q, int q_stride, const int32_t* codes, const float* units, uint64_t tokens,
                            int n_pairs, float* s);
struct CodeKernels {
  ScoreCodes scores[kMaxTileRows];
};
template <int... R>
constexpr CodeKernels make_codes(RowCounts<R...>) {
  return {{all_score_codes<R>...}};
}
inline constexpr CodeKernels kCodeKernels = make_codes(TileRows{});

struct StoredKeyKernels {
  void (*encode)(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, float limit, int32_t* codes,
                 float* units);
  void (*scores[kMaxTileRows])(const int32_t* q, int q_stride, const char* block, ptrdiff_t ahead, uint64_t tokens,
                               int dim, float limit, float* s);
};
template <class Row, int... R>
constexpr StoredKeyKernels make_stored_keys(RowCounts<R...>) {
  return {encode_keys<Row>, {score_stored<Row, R>...}};
}
template <class Row>
constexpr StoredKeyKernels kStoredKeys = make_stored_keys<Row>(TileRows{});
struct StoredKeyEntry {
  template <class Row>
  static constexpr const StoredKeyKernels* of() {
    return &kStoredKeys<Row>;
  }
};
constexpr auto kStoredKeyKernels = make_row_table<StoredKeyEntry>();

/// The interface of FloatKeys (attention.cpp). A block is encoded once for all rows.
class CodeKeys {
 public:
  static constexpr bool kCodes = true;
  static size_t scratch_bytes(int k_dim) { return Scratch(k_dim).end; }

  CodeKeys(const AttentionTask& task, int k_dtype, int n_groups, char* scratch)
      : dim_(task.k_dim),
        n_pairs_((task.k_dim + 1) / 2),
        limit_(largest_code(task.k_dim)),
        stays_stored_(n_groups == 1),
        kernels_(kStoredKeyKernels.of_dtype[k_dtype]),
        copy_(task.v_base == nullptr ? kKeyKernels.of_dtype[k_dtype] : nullptr) {
    const Scratch at(dim_);
    queries_ = reinterpret_cast<int32_t*>(scratch + at.queries);
    codes_ = reinterpret_cast<int32_t*>(scratch + at.codes);
    floats_ = reinterpret_cast<float*>(scratch + at.floats);
    if (copy_ != nullptr) kernels_ = &kStoredKeys<RowF32>;
    for (int i = 0; i < task.n_rows; ++i) {
      const float unit = encode_floats(task.q + task.q_offsets[i], dim_, limit_, queries_ + i * n_pairs_, 1);
      // A unit of 0 times the score -inf of a masked key would be a NaN.
      const float in_log2 = unit * (task.scale * kLog2E);
      query_units_[i] = in_log2 < kSmallestUnit ? kSmallestUnit : in_log2;
    }
  }

  void read_block(const StoredBlock& block, uint64_t tokens) {
    keys_ = block.k;
    ahead_ = block.k_ahead;
    if (copy_ != nullptr) {
      copy_->convert(block.k, block.k_ahead, tokens, dim_, floats_);
      keys_ = reinterpret_cast<const char*>(floats_);
    }
    if (!stays_stored_) kernels_->encode(keys_, ahead_, tokens, dim_, limit_, codes_, key_units_);
  }
  const float* floats() const { return floats_; }

  void scores(int first, int n, uint64_t tokens, float* s) const {
    if (stays_stored_) return kernels_->scores[n - 1](queries_, n_pairs_, keys_, ahead_, tokens, dim_, limit_, s);
    kCodeKernels.scores[n - 1](queries_ + first * n_pairs_, n_pairs_, codes_, key_units_, tokens, n_pairs_, s);
  }
  /// The factors of rows `first` on that make sums of products of codes logarithms to base 2 of softmax weights.
  const float* units(int first) const { return query_units_ + first; }

 private:
  static constexpr float kSmallestUnit = 0x1p-126f;

  /// Offsets of the parts of the scratch memory.
  struct Scratch {
    size_t queries = 0, codes, floats, end;

    explicit Scratch(int k_dim) {
      const auto n_pairs = (static_cast<size_t>(k_dim) + 1) / 2;
      codes = queries + sizeof(int32_t) * kMaxAttentionRows * n_pairs;
      floats = codes + sizeof(int32_t) * kBlockTokens * n_pairs;
      end = floats + sizeof(float) * kBlockTokens * static_cast<size_t>(k_dim);
    }
  };

  int dim_, n_pairs_;
  float limit_;
  bool stays_stored_;  // the codes stay in registers
  const StoredKeyKernels* kernels_;
  const KeyKernels* copy_;  // latent attention reads V from an f32 copy of K; else null
  int32_t *queries_, *codes_;
  float* floats_;
  const char* keys_ = nullptr;
  ptrdiff_t ahead_ = 0;
  float query_units_[kMaxAttentionRows];
  alignas(64) float key_units_[kBlockTokens];
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
