// Products of attention as bf16 dot products, the fast form of a task with `bf16` (attention.cpp, its only user).
//
// vdpbf16ps adds two products to each lane: that of the upper halves, then that of the lower halves, each rounded as an
// fma rounds. The first value of a pair is in the upper half here, so a sum is one fma chain in the order of the f32
// kernels, with the same bits. (The instruction takes values below 2^-126 for 0. No score and no output of a model is
// that small.)
//
// Not every CPU with AVX-512 has the instruction. It is written in assembly, because the compiler could use it
// elsewhere if it was enabled.
#pragma once

#include "tessera/cpu/kernels/attention_tiles.h"

#if defined(TESSERA_ISA_avx512)

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// Two bf16 in each of 16 lanes.
struct Bf16Pairs {
  __m512i v;

  static Bf16Pairs load(const uint32_t* p) { return {_mm512_loadu_si512(p)}; }
  static Bf16Pairs broadcast(uint32_t pair) { return {_mm512_set1_epi32(static_cast<int>(pair))}; }
  /// Lane i is the pair of first[i] and second[i], rounded like nearest_bf16().
  static Bf16Pairs of_lanes(F32x16 first, F32x16 second) {
    constexpr int kChoose = 0xca;  // bits of the second operand where the first has a 1, else of the third
    const __m512i lower = _mm512_srli_epi32(half_bf16_added(second), 16);
    return {_mm512_ternarylogic_epi32(_mm512_set1_epi32(~0xffff), half_bf16_added(first), lower, kChoose)};
  }
  /// The pairs of 32 floats in order, rounded likewise.
  static Bf16Pairs of_neighbours(F32x16 first16, F32x16 second16) {
    alignas(64) static constexpr uint16_t kUpperHalves[32] = {3,  1,  7,  5,  11, 9,  15, 13, 19, 17, 23,
                                                              21, 27, 25, 31, 29, 35, 33, 39, 37, 43, 41,
                                                              47, 45, 51, 49, 55, 53, 59, 57, 63, 61};
    return {_mm512_permutex2var_epi16(half_bf16_added(first16), _mm512_load_si512(kUpperHalves),
                                      half_bf16_added(second16))};
  }
  void store(uint32_t* p) const { _mm512_storeu_si512(p, v); }
};

inline F32x16 add_dot(Bf16Pairs a, Bf16Pairs b, F32x16 sum) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
  return sum;
}

inline constexpr int kPairsPerBlock = kBlockTokens / 2;

// Packing ---------------------------------------------------------------------------

/// Packs the products of n floats and a factor, padded with zeros to whole vectors of 16 pairs.
inline void pack_query(const float* q, int n, float factor, uint32_t* out) {
  const F32x16 f = F32x16::broadcast(factor);
  for (int e = 0; e < n; e += 2 * kLanes, out += kLanes) {
    const F32x16 first = F32x16::load_partial(q + e, n - e);
    const F32x16 second = F32x16::load_partial(q + e + kLanes, n - e - kLanes);
    Bf16Pairs::of_neighbours(mul(first, f), mul(second, f)).store(out);
  }
}

/// The weights of a register tile, as pairs of tokens.
struct PairWeights {
  alignas(64) uint32_t p[kMaxTileRows * kPairsPerBlock];

  void set_row(int r, const F32x16 (&row)[kTilesPerBlock]) {
    uint32_t* const out = p + r * kPairsPerBlock;
    for (int t = 0; t < kTilesPerBlock; t += 2)
      Bf16Pairs::of_neighbours(row[t], row[t + 1]).store(out + t / 2 * kTileTokens);
  }
};

/// Packs the tiles of a K block that contain any of `tokens` as [tile][pair of elements][16 tokens]. If dim is odd, the
/// last element is paired with 0.
template <class Row>
void pack_keys(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, uint32_t* out) {
  using Reader = TileReader<Row>;
  const size_t n_pairs = (static_cast<size_t>(dim) + 1) / 2;
  for (int t = 0; t < kTilesPerBlock; ++t) {
    if (tile_mask(tokens, t) == 0) continue;
    const char* tile = block + static_cast<size_t>(t) * tile_bytes<Row>(dim);
    uint32_t* tile_out = out + static_cast<size_t>(t) * n_pairs * kTileTokens;
    for (int begin = 0; begin < dim;) {
      const int n = dim - begin < Reader::kSpan ? dim - begin : Reader::kSpan;
      Reader reader(tile, begin);
      if (begin % Row::kBlock == 0) {
        const int n_prefetched = n < Row::kBlock ? Row::kBlock : n;
        prefetch<Row>(tile + tile_bytes<Row>(begin) + ahead, tile_bytes<Row>(n_prefetched));
      }
      for (int i = 0; i < n; i += 2, tile_out += kTileTokens) {
        F32x16 first, second = F32x16::zero();
        if constexpr (Reader::kStep == 1) {
          reader.step(i);
          first = reader.at(0);
          if (i + 1 < n) {
            reader.step(i + 1);
            second = reader.at(0);
          }
        } else {
          if (i % Reader::kStep == 0) reader.step(i);
          first = reader.at(i % Reader::kStep);
          second = reader.at(i % Reader::kStep + 1);
        }
        Bf16Pairs::of_lanes(first, second).store(tile_out);
      }
      begin += n;
    }
  }
}

/// Packs the V rows of `tokens` as [pair of tokens][padded_dim]: zeros past dim, and in place of a token that is not in
/// `tokens` but whose neighbour is.
template <class Row>
void pack_values(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, int padded_dim, uint32_t* out) {
  for (int pair = 0; pair < kPairsPerBlock; ++pair) {
    const uint64_t present = tokens >> (2 * pair) & 3;
    if (present == 0) continue;
    const char* const first_row = block + static_cast<size_t>(2 * pair) * Row::bytes(dim);
    const char* const second_row = first_row + Row::bytes(dim);
    prefetch<Row>(first_row + ahead, 2 * Row::bytes(dim));
    uint32_t* const row_out = out + pair * padded_dim;
    const auto load = [dim](const char* row, int e) {
      if constexpr (Row::kBlock == 1) {
        if (e + kLanes > dim) return Row::load_partial(row, e, dim - e);
      }
      return Row::load(row, e);
    };
    for (int e = 0; e < dim; e += kLanes) {
      const F32x16 first = (present & 1) != 0 ? load(first_row, e) : F32x16::zero();
      const F32x16 second = (present & 2) != 0 ? load(second_row, e) : F32x16::zero();
      Bf16Pairs::of_lanes(first, second).store(row_out + e);
    }
  }
}

// Register tiles ----------------------------------------------------------------------

/// Like score_tiles() of attention_tiles.h, for R packed queries `q_stride` pairs apart, and packed keys.
template <int R, int C>
inline void score_pairs(const uint32_t* q, int q_stride, const uint32_t* block, const int* tiles, int n_pairs,
                        float* s) {
  F32x16 acc[R][C];
  const uint32_t* keys[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) keys[c] = block + tiles[c] * n_pairs * kTileTokens;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c] = F32x16::zero();
  for (int i = 0; i < n_pairs; ++i) {
    Bf16Pairs k[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) k[c] = Bf16Pairs::load(keys[c] + i * kTileTokens);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Bf16Pairs qi = Bf16Pairs::broadcast(q[r * q_stride + i]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = add_dot(qi, k[c], acc[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c].store(s + r * kBlockTokens + tiles[c] * kTileTokens);
}

/// Like scores() of attention_tiles.h.
template <int R>
void all_score_pairs(const uint32_t* q, int q_stride, const uint32_t* block, uint64_t tokens, int n_pairs, float* s) {
  int tiles[kTilesPerBlock];
  int n = 0;
  for (int t = 0; t < kTilesPerBlock; ++t) {
    if (tile_mask(tokens, t) != 0) tiles[n++] = t;
  }
  if (n == kTilesPerBlock) return score_pairs<R, kTilesPerBlock>(q, q_stride, block, tiles, n_pairs, s);
  for (int i = 0; i < n; ++i) score_pairs<R, 1>(q, q_stride, block, tiles + i, n_pairs, s);
}

/// Like accumulate_columns() of attention_tiles.h, for packed weights p [R][32] of the pairs of tokens in `pairs`.
template <int R, int C>
inline void accumulate_pairs(const uint32_t* block, uint32_t pairs, int dim, int column, const uint32_t* p,
                             const float* correction, float* acc) {
  F32x16 sums[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const F32x16 earlier = F32x16::load(acc + r * dim + column + c * kLanes);
      sums[r][c] = mul(earlier, F32x16::broadcast(correction[r]));
    }
  for (uint32_t rest = pairs; rest != 0; rest &= rest - 1) {
    const int pair = __builtin_ctz(rest);
    const uint32_t* row = block + pair * dim + column;
    Bf16Pairs v[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) v[c] = Bf16Pairs::load(row + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Bf16Pairs weight = Bf16Pairs::broadcast(p[r * kPairsPerBlock + pair]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sums[r][c] = add_dot(weight, v[c], sums[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sums[r][c].store(acc + r * dim + column + c * kLanes);
}

/// Like accumulate() of attention_tiles.h.
template <int R>
void accumulate_all_pairs(const uint32_t* block, uint64_t tokens, int dim, const uint32_t* p, const float* correction,
                          float* acc) {
  constexpr uint64_t kEvenTokens = 0x5555555555555555;
  const auto pairs = static_cast<uint32_t>(_pext_u64(tokens | tokens >> 1, kEvenTokens));
  constexpr int kVectors = tile_vectors(R);
  int column = 0;
  for (; column + kVectors * kLanes <= dim; column += kVectors * kLanes)
    accumulate_pairs<R, kVectors>(block, pairs, dim, column, p, correction, acc);
  for (; column < dim; column += kLanes) accumulate_pairs<R, 1>(block, pairs, dim, column, p, correction, acc);
}

struct PairKernels {
  void (*scores[kMaxTileRows])(const uint32_t* q, int q_stride, const uint32_t* block, uint64_t tokens, int n_pairs,
                               float* s);
  void (*accumulate[kMaxTileRows])(const uint32_t* block, uint64_t tokens, int dim, const uint32_t* p,
                                   const float* correction, float* acc);
};
template <int... R>
constexpr PairKernels make_pairs(RowCounts<R...>) {
  return {{all_score_pairs<R>...}, {accumulate_all_pairs<R>...}};
}
inline constexpr PairKernels kPairKernels = make_pairs(TileRows{});

struct PackKernels {
  void (*keys)(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, uint32_t* out);
  void (*values)(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, int padded_dim, uint32_t* out);
};
template <class Row>
constexpr PackKernels kPack = {pack_keys<Row>, pack_values<Row>};
struct PackEntry {
  template <class Row>
  static constexpr const PackKernels* of() {
    return &kPack<Row>;
  }
};
constexpr auto kPackKernels = make_row_table<PackEntry>();

// The products of a task ----------------------------------------------------------------

/// The interface of FloatProducts (attention.cpp). Every block is packed once for all rows.
class PairProducts {
 public:
  static constexpr bool kBf16 = true;
  using Weights = PairWeights;
  static size_t scratch_bytes(int k_dim, int v_dim) { return Scratch(k_dim, padded(v_dim)).end; }

  PairProducts(const AttentionTask& task, int k_dtype, int v_dtype, int /*n_groups*/, char* scratch)
      : task_(task),
        v_dim_(padded(task.v_dim)),
        q_stride_(Scratch::query_pairs(task.k_dim)),
        latent_v_(task.v_base == nullptr),
        keys_(kPackKernels.of_dtype[k_dtype]),
        values_(latent_v_ ? &kPack<RowF32> : kPackKernels.of_dtype[v_dtype]),
        stored_keys_(kKeyKernels.of_dtype[k_dtype]) {
    const Scratch at(task.k_dim, v_dim_);
    queries_ = reinterpret_cast<uint32_t*>(scratch + at.queries);
    k_pairs_ = reinterpret_cast<uint32_t*>(scratch + at.k_pairs);
    v_pairs_ = reinterpret_cast<uint32_t*>(scratch + at.v_pairs);
    k_floats_ = reinterpret_cast<float*>(scratch + at.k_floats);
    v_floats_ = reinterpret_cast<float*>(scratch + at.v_floats);
    for (int i = 0; i < task.n_rows; ++i)
      pack_query(task.q + task.q_offsets[i], task.k_dim, query_factor(task), queries_ + i * q_stride_);
  }

  void read_block(const StoredBlock& block, uint64_t tokens) {
    keys_->keys(block.k, block.k_ahead, tokens, task_.k_dim, k_pairs_);
    if (!latent_v_) {
      values_->values(block.v, block.v_ahead, tokens, task_.v_dim, v_dim_, v_pairs_);
      return;
    }
    stored_keys_->convert(block.k, 0, tokens, task_.k_dim, k_floats_);
    values_of_keys(k_floats_, tokens, task_.k_dim, task_.v_dim, v_dim_, v_floats_);
    values_->values(reinterpret_cast<const char*>(v_floats_), 0, tokens, v_dim_, v_dim_, v_pairs_);
  }

  void scores(int first, int n, uint64_t tokens, float* s) const {
    kPairKernels.scores[n - 1](queries_ + first * q_stride_, q_stride_, k_pairs_, tokens, (task_.k_dim + 1) / 2, s);
  }

  void accumulate(int n, uint64_t tokens, const Weights& weights, const float* correction, float* acc) const {
    kPairKernels.accumulate[n - 1](v_pairs_, tokens, v_dim_, weights.p, correction, acc);
  }

 private:
  /// Offsets of the parts of the scratch memory.
  struct Scratch {
    size_t queries = 0, k_pairs, v_pairs, k_floats, v_floats, end;

    Scratch(int k_dim, int v_dim) {
      const auto k = static_cast<size_t>(k_dim), v = static_cast<size_t>(v_dim);
      k_pairs = queries + sizeof(uint32_t) * kMaxAttentionRows * static_cast<size_t>(query_pairs(k_dim));
      v_pairs = k_pairs + sizeof(uint32_t) * kBlockTokens * ((k + 1) / 2);
      k_floats = v_pairs + sizeof(uint32_t) * kPairsPerBlock * v;
      v_floats = k_floats + sizeof(float) * kBlockTokens * k;
      end = v_floats + sizeof(float) * kBlockTokens * v;
    }
    /// Pairs of a packed query: whole vectors.
    static int query_pairs(int k_dim) { return padded((k_dim + 1) / 2); }
  };

  const AttentionTask& task_;
  int v_dim_;  // padded
  int q_stride_;
  bool latent_v_;  // V rows are a part of K
  const PackKernels *keys_, *values_;
  const KeyKernels* stored_keys_;
  uint32_t *queries_, *k_pairs_, *v_pairs_;
  float *k_floats_, *v_floats_;
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE

#endif
