// The dtype-dependent half of attention.cpp, its only user: register tiles that multiply queries with K blocks and
// weights with V blocks, and the conversion of blocks to f32.
//
// Every score is one fma chain over elements and every output is one fma chain over tokens, both ascending, for any
// shape of the tile. On AVX-512 the inner loops keep all 24 accumulators in registers (check the assembly after a
// change).
#pragma once

#include "tessera/cpu/kernels/kv_tiles.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The row counts that have a register tile, and the vectors per row in it: as many as fit beside the operands. On
/// AVX-512, 24 accumulators, 4 operands and a broadcast use the 32 registers. On AVX2 a vector needs two of 16
/// registers. With few rows, 8 chains of fma are in flight.
template <int... N>
struct RowCounts {};

#if defined(TESSERA_ISA_avx512)
using TileRows = RowCounts<1, 2, 3, 4, 5, 6>;
constexpr int kMaxTileRows = 6;
constexpr int tile_vectors(int) { return 4; }
#elif defined(TESSERA_ISA_avx2)
using TileRows = RowCounts<1, 2, 3, 4, 5, 6>;
constexpr int kMaxTileRows = 6;
constexpr int tile_vectors(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }
#else
using TileRows = RowCounts<1, 2>;
constexpr int kMaxTileRows = 2;
constexpr int tile_vectors(int) { return 1; }
#endif

template <class Row>
constexpr bool kIsF32 = false;
template <>
inline constexpr bool kIsF32<RowF32> = true;

/// Prefetches `bytes` bytes from p on. The kernels prefetch the next block while they compute a block: blocks are
/// scattered in memory, and the hardware prefetcher restarts at each. The target is the second-level cache, because two
/// blocks and the f32 copies exceed the first-level cache (measured: 10-25% faster than prefetching to the first
/// level). f32 blocks are not prefetched, since most of them are converted copies in scratch memory.
template <class Row>
inline void prefetch(const char* p, size_t bytes) {
  if constexpr (!kIsF32<Row>) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
  }
}

/// A block of the cache, and the distances to the next one, for prefetching.
struct StoredBlock {
  const char *k, *v;  // v is null if V is a part of K
  ptrdiff_t k_ahead, v_ahead;
};

inline constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

/// The length of rows of whole vectors.
inline int padded(int dim) { return (dim + kLanes - 1) / kLanes * kLanes; }

/// Returns the tokens of `tile` in a block's mask.
inline uint16_t tile_mask(uint64_t tokens, int tile) { return static_cast<uint16_t>(tokens >> (tile * kTileTokens)); }

/// Calls run<C>(tiles) for sets of C tiles that together are the ones that contain any of `tokens`. C is kMost or 1.
template <int kMost, class Run>
inline void for_each_tile_set(uint64_t tokens, Run run) {
  int tiles[kTilesPerBlock];
  int n = 0;
  for (int t = 0; t < kTilesPerBlock; ++t) {
    if (tile_mask(tokens, t) != 0) tiles[n++] = t;
  }
  int i = 0;
  for (; i + kMost <= n; i += kMost) run.template operator()<kMost>(tiles + i);
  for (; i < n; ++i) run.template operator()<1>(tiles + i);
}

// In the kernels below `ahead` is the distance in bytes from a block to the one to prefetch.

// Scores --------------------------------------------------------------------------

/// Dot products of R queries with the tokens of C tiles: s[r * 64 + 16 * tiles[c] + token].
template <class Row, int R, int C>
inline void score_tiles(const float* const* q, const char* block, ptrdiff_t ahead, const int* tiles, int dim,
                        float* s) {
  using Reader = TileReader<Row>;
  constexpr int kStep = Reader::kStep;
  constexpr size_t kStepBytes = Row::bytes(Row::kBlock) * kTileTokens * C * kStep / Row::kBlock;
  const float* queries[R];
  const char* keys[C];
  F32x16 acc[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) queries[r] = q[r];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) keys[c] = block + static_cast<size_t>(tiles[c]) * tile_bytes<Row>(dim);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c] = F32x16::zero();

  const char* next = keys[0] + ahead;
  for (int begin = 0; begin < dim;) {
    const int n = dim - begin < Reader::kSpan ? dim - begin : Reader::kSpan;
    Reader readers[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) readers[c] = Reader(keys[c], begin);
    for (int i = 0; i < n; i += kStep, next += kStepBytes) {
      prefetch<Row>(next, kStepBytes);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) readers[c].step(i);
#pragma GCC unroll 4
      for (int j = 0; j < kStep; ++j) {
        F32x16 k[C];
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) k[c] = readers[c].at(j);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const F32x16 qi = F32x16::broadcast(queries[r][begin + i + j]);
#pragma GCC unroll 8
          for (int c = 0; c < C; ++c) acc[r][c] = fma(qi, k[c], acc[r][c]);
        }
      }
    }
    begin += n;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c].store(s + r * kBlockTokens + tiles[c] * kTileTokens);
}

/// Scores of R queries in the tiles that contain any of `tokens`. Other tiles are not read, and their scores are not
/// written.
template <class Row, int R>
void scores(const float* const* q, const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, float* s) {
  for_each_tile_set<tile_vectors(R)>(
      tokens, [&]<int C>(const int* tiles) { score_tiles<Row, R, C>(q, block, ahead, tiles, dim, s); });
}

// Weighted values -----------------------------------------------------------------

/// acc[r] = acc[r] * correction[r] + sum over tokens of p[r][token] * V[token], for C vectors of columns.
template <class Row, int R, int C>
inline void accumulate_columns(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, int column, const float* p,
                               const float* correction, float* acc) {
  // With whole blocks of the dtype from `origin` on, load() divides only constants.
  constexpr bool kWholeBlocks = C * kLanes % Row::kBlock == 0;
  const int origin = kWholeBlocks ? column : 0;
  const char* values = block + Row::bytes(origin);
  const size_t row_bytes = Row::bytes(dim);
  F32x16 sums[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const F32x16 earlier = F32x16::load(acc + r * dim + column + c * kLanes);
      sums[r][c] = mul(earlier, F32x16::broadcast(correction[r]));
    }
  for (uint64_t rest = tokens; rest != 0; rest &= rest - 1) {
    const int token = __builtin_ctzll(rest);
    const char* row = values + static_cast<size_t>(token) * row_bytes;
    prefetch<Row>(row + ahead, Row::bytes(Row::kBlock) * C * kLanes / Row::kBlock);
    F32x16 v[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) v[c] = Row::load(row, (kWholeBlocks ? 0 : column) + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32x16 weight = F32x16::broadcast(p[r * kBlockTokens + token]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sums[r][c] = fma(weight, v[c], sums[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sums[r][c].store(acc + r * dim + column + c * kLanes);
}

/// All columns of R rows. dim, a multiple of 16, is the length of the V rows and of the accumulators.
template <class Row, int R>
void accumulate(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, const float* p, const float* correction,
                float* acc) {
  constexpr int kVectors = tile_vectors(R);
  int column = 0;
  for (; column + kVectors * kLanes <= dim; column += kVectors * kLanes) {
    accumulate_columns<Row, R, kVectors>(block, ahead, tokens, dim, column, p, correction, acc);
  }
  for (; column < dim; column += kLanes) {
    accumulate_columns<Row, R, 1>(block, ahead, tokens, dim, column, p, correction, acc);
  }
}

// Blocks as floats ----------------------------------------------------------------

/// Converts the tiles of a K block that contain any of `tokens` to a block of f32.
template <class Row>
void convert_keys(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, float* out) {
  using Reader = TileReader<Row>;
  for (int t = 0; t < kTilesPerBlock; ++t) {
    if (tile_mask(tokens, t) == 0) continue;
    const char* tile = block + static_cast<size_t>(t) * tile_bytes<Row>(dim);
    float* tile_out = out + static_cast<size_t>(t) * kTileTokens * static_cast<size_t>(dim);
    for (int begin = 0; begin < dim;) {
      const int n = dim - begin < Reader::kSpan ? dim - begin : Reader::kSpan;
      Reader reader(tile, begin);
      if (begin % Row::kBlock == 0) {
        const int n_prefetched = n < Row::kBlock ? Row::kBlock : n;
        prefetch<Row>(tile + tile_bytes<Row>(begin) + ahead, tile_bytes<Row>(n_prefetched));
      }
      for (int i = 0; i < n; i += Reader::kStep) {
        reader.step(i);
#pragma GCC unroll 4
        for (int j = 0; j < Reader::kStep; ++j) reader.at(j).store(tile_out + (begin + i + j) * kTileTokens);
      }
      begin += n;
    }
  }
}

/// Converts the V rows of `tokens` to f32 rows of padded_dim, zero past dim.
template <class Row>
void convert_values(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, int padded_dim, float* out) {
  for (uint64_t rest = tokens; rest != 0; rest &= rest - 1) {
    const int token = __builtin_ctzll(rest);
    const char* row = block + static_cast<size_t>(token) * Row::bytes(dim);
    prefetch<Row>(row + ahead, Row::bytes(dim));
    float* row_out = out + token * padded_dim;
    int e = 0;
    for (; e + kLanes <= dim; e += kLanes) Row::load(row, e).store(row_out + e);
    if constexpr (Row::kBlock == 1) {
      if (e < dim) Row::load_partial(row, e, dim - e).store(row_out + e);
    }
  }
}

/// Copies the last v_dim elements of the f32 keys of `tokens` to rows of padded_dim, zero past v_dim. Other tokens of
/// the same tiles may be written too.
inline void values_of_keys(const float* keys, uint64_t tokens, int k_dim, int v_dim, int padded_dim, float* out) {
  for (int t = 0; t < kTilesPerBlock; ++t) {
    if (tile_mask(tokens, t) == 0) continue;
    const float* tile = keys + (t * k_dim + k_dim - v_dim) * kTileTokens;
    float* rows = out + t * kTileTokens * padded_dim;
    for (int begin = 0; begin < v_dim; begin += kLanes) {
      F32x16 square[kLanes];
      for (int i = 0; i < kLanes; ++i)
        square[i] = begin + i < v_dim ? F32x16::load(tile + (begin + i) * kTileTokens) : F32x16::zero();
      transpose(square);
      for (int i = 0; i < kLanes; ++i) square[i].store(rows + i * padded_dim + begin);
    }
  }
}

// One per dtype -------------------------------------------------------------------

struct KeyKernels {
  void (*scores[kMaxTileRows])(const float* const* q, const char* block, ptrdiff_t ahead, uint64_t tokens, int dim,
                               float* s);
  void (*convert)(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, float* out);
};

struct ValueKernels {
  void (*accumulate[kMaxTileRows])(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, const float* p,
                                   const float* correction, float* acc);
  void (*convert)(const char* block, ptrdiff_t ahead, uint64_t tokens, int dim, int padded_dim, float* out);
};

template <class Row, int... R>
constexpr KeyKernels make_keys(RowCounts<R...>) {
  return {{scores<Row, R>...}, convert_keys<Row>};
}
template <class Row, int... R>
constexpr ValueKernels make_values(RowCounts<R...>) {
  return {{accumulate<Row, R>...}, convert_values<Row>};
}
template <class Row>
constexpr KeyKernels kKeys = make_keys<Row>(TileRows{});
template <class Row>
constexpr ValueKernels kValues = make_values<Row>(TileRows{});

struct KeyEntry {
  template <class Row>
  static constexpr const KeyKernels* of() {
    return &kKeys<Row>;
  }
};
struct ValueEntry {
  template <class Row>
  static constexpr const ValueKernels* of() {
    return &kValues<Row>;
  }
};
constexpr auto kKeyKernels = make_row_table<KeyEntry>();
constexpr auto kValueKernels = make_row_table<ValueEntry>();

// The same, for elements that are rounded to bf16.
struct RoundedValueEntry {
  template <class Row>
  static constexpr const ValueKernels* of() {
    return &kValues<Rounded<Row>>;
  }
};
constexpr auto kRoundedValueKernels = make_row_table<RoundedValueEntry>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
