// Scores of attention from 16-bit integers, for tasks with `int16` (attention.cpp, its only user).
//
// Queries and keys become codes: integers in units of the vector's largest element. The largest code is as large as a
// sum of products of codes allows without overflow in 32 bits, 5792 for 64 elements and 4095 for 128. So the sums are
// exact: they do not depend on the order, nor on the instruction set. A multiply-add instruction takes two products per
// lane, twice as many as in f32.
#pragma once

#include "tessera/cpu/kernels/attention_tiles.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The largest code of vectors of `dim` elements: sums of dim products of two codes are below 2^31.
inline float largest_code(int dim) {
  const auto root = static_cast<int>(__builtin_sqrt(2147483647.0 / dim));
  return static_cast<float>(root < 32767 ? root : 32767);
}

/// Encodes the vectors whose largest magnitudes are `largest`, one per lane. If that is infinite or a NaN, the product
/// of the unit and of a sum of codes is a NaN. If it is too small for a finite inverse, all codes are 0. Both follow
/// from the bits of infinities and of NaNs that arithmetic gives: their low halves are 0.
struct Encoder {
  F32x16 inverse;  // codes per unit of value
  F32x16 unit;     // value of a code of 1

  Encoder(F32x16 largest, float limit)
      : inverse(div(F32x16::broadcast(limit), largest)), unit(div(largest, F32x16::broadcast(limit))) {}
  /// The codes, rounded to the nearest, in the low halves of the lanes.
  I32x16 code(F32x16 x) const {
    constexpr float kIntegers = 0x1.8p23f;  // floats from here on are integers, the last bits of which are the code
    return as_bits(fma(x, inverse, F32x16::broadcast(kIntegers)));
  }
};

/// The magnitudes of floats as integers. They have the same order, in which a NaN is above all numbers.
inline I32x16 magnitude_bits(F32x16 x) { return as_bits(abs(x)); }

/// Encodes n floats as pairs. Returns their unit.
inline float encode_query(const float* q, int n, float limit, int32_t* pairs) {
  uint32_t highest = 0;
  for (int i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, q + i, sizeof bits);
    bits &= 0x7fffffff;
    highest = bits > highest ? bits : highest;
  }
  const Encoder encoder(as_floats(I32x16::broadcast(static_cast<int32_t>(highest))), limit);
  for (int i = 0; i < n; i += 2 * kLanes) {
    int32_t codes[2 * kLanes];
    encoder.code(F32x16::load_partial(q + i, n - i < kLanes ? n - i : kLanes)).store(codes);
    const int rest = n - i - kLanes;
    encoder.code(rest <= 0 ? F32x16::zero() : F32x16::load_partial(q + i + kLanes, rest < kLanes ? rest : kLanes))
        .store(codes + kLanes);
    for (int pair = 0; pair < kLanes && i + 2 * pair < n; ++pair)
      *pairs++ = (codes[2 * pair] & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(codes[2 * pair + 1]) << 16);
  }
  float unit[kLanes];
  encoder.unit.store(unit);
  return unit[0];
}

/// The largest magnitude of each of a tile's 16 tokens.
template <class Row>
inline F32x16 largest_magnitudes(const char* tile, int dim) {
  I32x16 first_highest = I32x16::zero(), second_highest = first_highest;
  if constexpr (Row::kBlock == 1 && Row::bytes(1) == 2) {
    // The bits of 16-bit floats have the order of their magnitudes too. A vector holds two elements of 16 tokens.
    const auto magnitudes = [](const char* halves) {
      return select_bits(0x7fff7fff, I32x16::load(halves), I32x16::zero());
    };
    constexpr int kPairBytes = 4 * kTileTokens;
    int i = 0;
    for (; i + 4 <= dim; i += 4, tile += 2 * kPairBytes) {
      first_highest = max_halves(first_highest, magnitudes(tile));
      second_highest = max_halves(second_highest, magnitudes(tile + kPairBytes));
    }
    for (; i + 2 <= dim; i += 2, tile += kPairBytes) first_highest = max_halves(first_highest, magnitudes(tile));
    alignas(64) uint16_t highest[2 * kTileTokens];
    max_halves(first_highest, second_highest).store(highest);
    first_highest = magnitude_bits(Row::load(highest, 0));
    second_highest = magnitude_bits(Row::load(highest, kTileTokens));
    if (i < dim) first_highest = max(first_highest, magnitude_bits(Row::load(tile, 0)));
  } else {
    for_each_pair<Row>(tile, dim, [&](int, F32x16 first, F32x16 second) {
      first_highest = max(first_highest, magnitude_bits(first));
      second_highest = max(second_highest, magnitude_bits(second));
    });
  }
  return as_floats(max(first_highest, second_highest));
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
      low_halves(encoder.code(first), encoder.code(second)).store(out + pair * kTileTokens);
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
      const I32x16 keys = low_halves(encoder.code(first), encoder.code(second));
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
      const float unit = encode_query(task.q + task.q_offsets[i], dim_, limit_, queries_ + i * n_pairs_);
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
  /// The units of the scores of rows `first` on: their logarithms to base 2.
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
