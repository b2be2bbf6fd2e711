// Weighted values of attention by bf16 dot products, the fast form for tasks with `int16` (attention.cpp, its only
// user).
//
// vdpbf16ps adds two products to each lane: that of the upper halves, then that of the lower halves, each rounded as an
// fma rounds. The first value of a pair is in the upper half here, so a sum is one fma chain in the order of the f32
// kernels, with the same bits. (The instruction takes values below 2^-126 for 0. No output of a model is that small.)
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

/// The weights of a register tile, as pairs of tokens.
struct PairWeights {
  alignas(64) uint32_t p[kMaxTileRows * kPairsPerBlock];

  void set_row(int r, const F32x16 (&row)[kTilesPerBlock]) {
    uint32_t* const out = p + r * kPairsPerBlock;
    for (int t = 0; t < kTilesPerBlock; t += 2)
      Bf16Pairs::of_neighbours(row[t], row[t + 1]).store(out + t / 2 * kTileTokens);
  }
};

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

/// Like accumulate_columns() of attention_tiles.h, for packed weights p [R][32] of the pairs of tokens in `pairs`.
/// load(pair, v) reads C vectors of the pair's V rows, from `column` on.
template <int R, int C, class Load>
inline void accumulate_pairs(uint32_t pairs, int dim, int column, const uint32_t* p, const float* correction,
                             float* acc, Load load) {
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
    Bf16Pairs v[C];
    load(pair, v);
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

/// accumulate_pairs() for packed V rows.
template <int R, int C>
inline void accumulate_packed(const uint32_t* block, uint32_t pairs, int dim, int column, const uint32_t* p,
                              const float* correction, float* acc) {
  accumulate_pairs<R, C>(pairs, dim, column, p, correction, acc, [=](int pair, Bf16Pairs(&v)[C]) {
    const uint32_t* const row = block + pair * dim + column;
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) v[c] = Bf16Pairs::load(row + c * kLanes);
  });
}

/// The pairs of tokens that contain any of `tokens`.
inline uint32_t pairs_of(uint64_t tokens) {
  constexpr uint64_t kEvenTokens = 0x5555555555555555;
  return static_cast<uint32_t>(_pext_u64(tokens | tokens >> 1, kEvenTokens));
}

/// Like accumulate() of attention_tiles.h.
template <int R>
void accumulate_all_pairs(const uint32_t* block, uint64_t tokens, int dim, const uint32_t* p, const float* correction,
                          float* acc) {
  const uint32_t pairs = pairs_of(tokens);
  constexpr int kVectors = tile_vectors(R);
  int column = 0;
  for (; column + kVectors * kLanes <= dim; column += kVectors * kLanes)
    accumulate_packed<R, kVectors>(block, pairs, dim, column, p, correction, acc);
  for (; column < dim; column += kLanes) accumulate_packed<R, 1>(block, pairs, dim, column, p, correction, acc);
}

/// V rows 2 * pair and 2 * pair + 1 of a stored block, with zeros in place of a row that is not in `tokens`.
template <class Row>
struct StoredPair {
  const char *first, *second;  // null: not present

  StoredPair(const char* block, size_t row_bytes, uint64_t tokens, int pair) {
    const char* const row = block + static_cast<size_t>(2 * pair) * row_bytes;
    first = (tokens >> (2 * pair) & 1) != 0 ? row : nullptr;
    second = (tokens >> (2 * pair) & 2) != 0 ? row + row_bytes : nullptr;
  }
  Bf16Pairs load(int e) const {
    return Bf16Pairs::of_lanes(first != nullptr ? Row::load(first, e) : F32x16::zero(),
                               second != nullptr ? Row::load(second, e) : F32x16::zero());
  }
};

/// accumulate_pairs() for V rows of a stored block.
template <class Row, int R, int C>
inline void accumulate_stored(const char* block, ptrdiff_t ahead, uint64_t tokens, uint32_t pairs, int dim, int column,
                              const uint32_t* p, const float* correction, float* acc) {
  // With whole blocks of the dtype from `origin` on, load() divides only constants.
  constexpr bool kWholeBlocks = C * kLanes % Row::kBlock == 0;
  const int origin = kWholeBlocks ? column : 0;
  const size_t row_bytes = Row::bytes(dim);
  const char* const values = block + Row::bytes(origin);
  accumulate_pairs<R, C>(pairs, dim, column, p, correction, acc, [=](int pair, Bf16Pairs(&v)[C]) {
    const StoredPair<Row> rows(values, row_bytes, tokens, pair);
    const char* const next = values + static_cast<size_t>(2 * pair) * row_bytes + ahead;
    prefetch<Row>(next, Row::bytes(Row::kBlock) * C * kLanes / Row::kBlock);
    prefetch<Row>(next + row_bytes, Row::bytes(Row::kBlock) * C * kLanes / Row::kBlock);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) v[c] = rows.load((kWholeBlocks ? 0 : column) + c * kLanes);
  });
}

template <class Row, int R>
void accumulate_all_stored(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, const uint32_t* p,
                           const float* correction, float* acc) {
  const uint32_t pairs = pairs_of(tokens);
  constexpr int kVectors = tile_vectors(R);
  int column = 0;
  for (; column + kVectors * kLanes <= dim; column += kVectors * kLanes)
    accumulate_stored<Row, R, kVectors>(block, ahead, tokens, pairs, dim, column, p, correction, acc);
  for (; column < dim; column += kLanes)
    accumulate_stored<Row, R, 1>(block, ahead, tokens, pairs, dim, column, p, correction, acc);
}

using AccumulatePairs = void (*)(const uint32_t* block, uint64_t tokens, int dim, const uint32_t* p,
                                 const float* correction, float* acc);
struct PairKernels {
  AccumulatePairs accumulate[kMaxTileRows];
};
template <int... R>
constexpr PairKernels make_pairs(RowCounts<R...>) {
  return {{accumulate_all_pairs<R>...}};
}
inline constexpr PairKernels kPairKernels = make_pairs(TileRows{});

struct StoredValueKernels {
  void (*pack)(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, int padded_dim, uint32_t* out);
  void (*accumulate[kMaxTileRows])(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, const uint32_t* p,
                                   const float* correction, float* acc);
};
template <class Row, int... R>
constexpr StoredValueKernels make_stored_values(RowCounts<R...>) {
  return {pack_values<Row>, {accumulate_all_stored<Row, R>...}};
}
template <class Row>
constexpr StoredValueKernels kStoredValues = make_stored_values<Row>(TileRows{});
struct StoredValueEntry {
  template <class Row>
  static constexpr const StoredValueKernels* of() {
    return &kStoredValues<Row>;
  }
};
constexpr auto kStoredValueKernels = make_row_table<StoredValueEntry>();

// The values of a task ------------------------------------------------------------------

/// The interface of FloatValues (attention.cpp). A block is packed once for all rows, or for few rows in registers.
class PairValues {
 public:
  using Weights = PairWeights;
  static size_t scratch_bytes(int v_dim) { return Scratch(padded(v_dim)).end; }

  PairValues(const AttentionTask& task, int v_dtype, int n_groups, char* scratch)
      : task_(task),
        v_dim_(padded(task.v_dim)),
        latent_(task.v_base == nullptr),
        // Measured: for up to two groups it is faster to read the stored block and pack it in registers.
        stays_stored_(n_groups <= 2 && (latent_ || v_dim_ == task.v_dim)),
        kernels_(latent_ ? &kStoredValues<RowF32> : kStoredValueKernels.of_dtype[v_dtype]) {
    const Scratch at(v_dim_);
    pairs_ = reinterpret_cast<uint32_t*>(scratch);
    floats_ = reinterpret_cast<float*>(scratch + at.floats);
  }

  void read_block(const StoredBlock& block, uint64_t tokens, const float* keys) {
    values_ = block.v;
    ahead_ = block.v_ahead;
    int dim = task_.v_dim;
    if (latent_) {
      values_of_keys(keys, tokens, task_.k_dim, task_.v_dim, v_dim_, floats_);
      values_ = reinterpret_cast<const char*>(floats_);
      dim = v_dim_;
    }
    if (!stays_stored_) kernels_->pack(values_, ahead_, tokens, dim, v_dim_, pairs_);
  }

  void accumulate(int n, uint64_t tokens, const Weights& weights, const float* correction, float* acc) const {
    if (stays_stored_) return kernels_->accumulate[n - 1](values_, ahead_, tokens, v_dim_, weights.p, correction, acc);
    kPairKernels.accumulate[n - 1](pairs_, tokens, v_dim_, weights.p, correction, acc);
  }

 private:
  /// Offsets of the parts of the scratch memory, after the pairs.
  struct Scratch {
    size_t floats, end;

    explicit Scratch(int v_dim) {
      const auto v = static_cast<size_t>(v_dim);
      floats = sizeof(uint32_t) * kPairsPerBlock * v;
      end = floats + sizeof(float) * kBlockTokens * v;
    }
  };

  const AttentionTask& task_;
  int v_dim_;    // padded
  bool latent_;  // V rows are a part of K
  bool stays_stored_;
  const StoredValueKernels* kernels_;
  uint32_t* pairs_;
  float* floats_;
  const char* values_ = nullptr;
  ptrdiff_t ahead_ = 0;
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE

#endif
