// Products of few tokens with weights of any format, in the layout of the file (matmul.cuh).
//
// A block computes a group of 16 rows for up to eight tokens at a time (8 rows and 16 tokens in the precision of f32).
// Each of its warps takes every n-th segment of the columns. Blocks go on to further groups, whose weights they request
// before they finish the last ones. The sums of the segments of a group meet in shared memory, where a thread per
// result adds them in order; warps take turns in that, while the others go on.
//
// What limits a product is the number of instructions per weight. So weights are the first operand of the matrix units
// (16 rows), and activations, which are converted once per block, the second one.
#include "tessera/cuda/kernels/matmul_sums.cuh"

namespace tessera::cuda {

constexpr uint32_t kMostRowsThreads = 512;

/// Shared memory of a block: the activations by segment; two sets of sums by segment, used in turns, so that one is
/// read while the next is filled; two sets of the activations' scales likewise; the weights of each warp, at a multiple
/// of 128 bytes. There is room for all segments, or for one of each warp.
template <class Sum>
struct Room {
  uint32_t n_segments, n_tokens;
  unsigned char* x_begin;
  float *sums_begin, *scales_begin;

  __device__ void open(const Params& step, Sum& sum) {
    constexpr uint32_t kAlignment = 128, kFloats = 2 * (Sum::kRows + 1);
    n_segments = has_all_segments(step) ? n_segments_of(step.x[0].ne[0]) : n_lanes() / kWarp;
    n_tokens = room_tokens(step);
    x_begin = dynamic_shared();
    const uint32_t places = n_segments * n_tokens, x_bytes = places * Sum::kStride;
    sums_begin = reinterpret_cast<float*>(x_begin + x_bytes);
    scales_begin = sums_begin + 2 * places * Sum::kRows;
    const uint32_t weights = x_bytes + places * kFloats * static_cast<uint32_t>(sizeof(float));
    sum.set_weights_room(step, x_begin + (weights + kAlignment - 1) / kAlignment * kAlignment);
  }
  __device__ float* sums(uint32_t turn, uint32_t place) const {
    return sums_begin + (turn * n_segments + place) * n_tokens * Sum::kRows;
  }
  __device__ float* scales(uint32_t turn, uint32_t place) const {
    return scales_begin + (turn * n_segments + place) * n_tokens;
  }
  __device__ unsigned char* x(uint32_t place) const { return x_begin + place * n_tokens * Sum::kStride; }

  /// Adds the sums of the first n segments, in order.
  __device__ void add(uint32_t turn, uint32_t scales_turn, uint32_t n, uint32_t token, uint32_t row,
                      float& total) const {
    const float* sum = sums(turn, 0) + token * Sum::kRows + row;
    const float* scale = scales(scales_turn, 0) + token;
#pragma unroll 8
    for (uint32_t i = 0; i < n; ++i) total = fmaf(sum[i * n_tokens * Sum::kRows], scale[i * n_tokens], total);
  }
};

/// Rows from `first` on, of which the last is n_rows - 1.
template <class Sum>
__device__ inline Rows<Sum> rows_from(const Params& step, uint64_t weights, uint32_t first, uint32_t n_rows) {
  Rows<Sum> rows;
  for (uint32_t n = 0; n < Sum::kLaneRows; ++n) {
    const uint32_t row = first + n * 8 + lane() % kWarp / 4;
    rows.at[n] = weights + uint64_t{min_of(row, n_rows - 1)} * step.x[0].nb[1];
  }
  return rows;
}
template <class Sum>
__device__ inline Rows<Sum> rows_of(const Params& step, const Part& p) {
  return rows_from<Sum>(step, p.w, 0, p.n_rows);
}

/// Requests the weights of this warp's segments of a plain product, in order: of every n-th group of rows, of each
/// matrix in it, all segments of the warp.
template <class Sum>
struct Requests {
  uint32_t matrix, group, segment;
  Rows<Sum> rows;

  __device__ void open(const Params& step, uint32_t n_segments) {
    matrix = 0;
    segment = lane() / kWarp;
    group = segment < n_segments ? group_of(step) : step.u[0];
    set_rows(step);
  }
  /// Requests the next segment, if there is one.
  __device__ void next(const Params& step, uint32_t n_segments, Sum& sum) {
    if (group >= step.u[0]) return;
    sum.template load<true>(step, rows, segment);
    segment += n_lanes() / kWarp;
    if (segment < n_segments) return;
    segment = lane() / kWarp;
    if (++matrix == n_matrices(step)) {
      matrix = 0;
      group += step.n_groups;
    }
    set_rows(step);
  }

 private:
  __device__ void set_rows(const Params& step) {
    rows = rows_from<Sum>(step, matrix == 0 ? step.x[0].data : step.x[2].data, group * Sum::kRows, step.x[0].ne[1]);
  }
};

/// The result of a gated product.
__device__ inline float gated(const Params& step, float gate, float up) {
  return (step.u[7] != 0 ? gelu_of(gate) : silu_of(gate)) * up;
}

/// Requests this block's share of the weights that later products read: ranges x[3] to x[7] of ne[0] times 16 bytes.
__device__ inline void prefetch_later(const Params& step) {
  constexpr uint32_t kFirst = 3, kRanges = 5, kChunk = 16;
  if (lane() >= kRanges) return;
  const Operand& range = step.x[kFirst + lane()];
  if (range.data == 0) return;
  const uint32_t share = (range.ne[0] + step.n_groups - 1) / step.n_groups, begin = group_of(step) * share;
  if (begin < range.ne[0])
    prefetch_weights(range.data + uint64_t{begin} * kChunk, min_of(share, range.ne[0] - begin) * kChunk);
}

/// Brings the activations of every n-th segment from `first` to `end` to shared memory, for plain products; n is the
/// number of warps. `place`: that of the first one. Several are requested at a time.
template <class Sum>
__device__ inline void read_activations(const Params& step, const Room<Sum>& room, uint32_t first, uint32_t end,
                                        uint32_t place, uint32_t turn) {
  constexpr uint32_t kAtATime = Sum::looks_ahead() ? 4 : 1;  // the other sums have weights in registers meanwhile
  const uint32_t n_warps = n_lanes() / kWarp, in_warp = lane() % kWarp, n_tokens = step.u[3];
  const uint64_t x = step.x[1].data + in_warp * (kPiece * sizeof(float));
  uint32_t segment = first, token = first < end ? 0 : n_tokens;
  sync_warp();  // no lane reads the last segments any more
  while (token < n_tokens) {
    float v[kAtATime][8];
    uint32_t places[kAtATime], tokens[kAtATime];
#pragma unroll
    for (uint32_t i = 0; i < kAtATime; ++i) {
      places[i] = place + segment - first;
      tokens[i] = token;
      if (token == n_tokens) continue;
      x_piece_of_aligned(x + uint64_t{token} * step.u[4] + uint64_t{segment} * (kSegment * sizeof(float)), v[i]);
      segment += n_warps;
      if (segment >= end) {
        segment = first;
        ++token;
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtATime; ++i) {
      if (tokens[i] == n_tokens) break;
      const float inverse = Sum::put_halves(v[i], tokens[i], room.x(places[i]));
      if (in_warp == 0) room.scales(turn, places[i])[tokens[i]] = inverse;
    }
  }
  sync_warp();
}

/// The loop over rows and segments of plain products. All that is not needed for those is left out, since the number of
/// instructions limits the speed.
template <class Sum>
__device__ inline void multiply_plain_rows(const Params& step, Sum& sum) {
  const uint32_t n_segments = step.x[0].ne[0] / kSegment, n_rows = step.x[0].ne[1], n_tokens = step.u[3];
  const uint32_t n_warps = n_lanes() / kWarp, warp = lane() / kWarp, n_of_group = n_matrices(step);
  Room<Sum> room;
  room.open(step, sum);
  Requests<Sum> requests;
  requests.open(step, n_segments);
  const bool is_early = step.u[9] != 0, has_all = has_all_segments(step);
  if (is_early) requests.next(step, n_segments, sum);
  wait_for_previous();
  allow_next();
  if (!is_early) requests.next(step, n_segments, sum);
  bool is_known = false;  // the activations are in shared memory
  // The threads that add the sums of a group: one for each result. Other warps follow for the next group.
  const uint32_t n_adders = Sum::kRows * n_tokens, n_adding_lanes = (n_adders + kWarp - 1) / kWarp * kWarp;
  const uint32_t at_a_time = has_all ? n_segments : n_warps;
  uint32_t first_adder = 0, turn = 0;
  for (uint32_t group = group_of(step); group < step.u[0]; group += step.n_groups) {
    const uint32_t adder = lane() - first_adder + (lane() < first_adder ? n_lanes() : 0);
    const uint32_t token = adder / Sum::kRows, row = adder % Sum::kRows;
    float gate = 0, total = 0;
    for (uint32_t matrix = 0; matrix < n_of_group; ++matrix) {
      gate = total;
      total = 0;
      for (uint32_t begin = 0; begin < n_segments; begin += at_a_time, turn ^= 1) {
        const uint32_t end = min_of(begin + at_a_time, n_segments), scales_turn = has_all ? 0 : turn;
        if (!is_known && Sum::looks_ahead()) read_activations(step, room, begin + warp, end, warp, scales_turn);
        for (uint32_t segment = begin + warp; segment < end; segment += n_warps) {
          const uint32_t place = segment - begin;
          if (Sum::looks_ahead()) requests.next(step, n_segments, sum);
          if (!is_known && !Sum::looks_ahead()) read_activations(step, room, segment, segment + 1, place, scales_turn);
          float c[4] = {};
          sum.template multiply<true>(step, n_tokens, segment, room.x(place), c);
          Sum::put(c, n_tokens, room.sums(turn, place));
          if (!Sum::looks_ahead()) requests.next(step, n_segments, sum);
        }
        is_known = has_all;
        if (end == n_segments && matrix + 1 == n_of_group && group + step.n_groups >= step.u[0]) prefetch_later(step);
        sync_group();
        if (adder < n_adders) room.add(turn, scales_turn, end - begin, token, row, total);
      }
    }
    if (adder < n_adders && group * Sum::kRows + row < n_rows) {
      float* y = floats(step.y.data + uint64_t{token} * step.u[5]);
      y[group * Sum::kRows + row] = n_of_group == 1 ? total : gated(step, gate, total);
    }
    first_adder += n_adding_lanes;
    if (first_adder >= n_lanes()) first_adder -= n_lanes();
  }
}

/// The group of rows of a block's part of the product. Of experts, only the groups of those with tokens are numbered.
constexpr uint32_t kNoGroup = 0xffffffffu;
__device__ inline uint32_t group_with_tokens(const Params& step, uint32_t part) {
  const uint32_t in_matrix = step.u[0] * step.u[1];
  if (step.x[2].data == 0) return part < in_matrix * step.u[2] ? part : kNoGroup;
  const uint32_t n = part / in_matrix;
  if (n >= min_of(step.u[2], step.u[3])) return kNoGroup;  // no more experts than pairs have tokens
  const uint32_t matrix = used_matrix(step, n);
  return matrix < step.u[2] ? part + (matrix - n) * in_matrix : kNoGroup;
}

/// The same for all products: several matrices, routes, any number of tokens and columns. kIsWhole: all segments are.
template <bool kIsWhole, class Sum>
__device__ inline void multiply_rows(const Params& step, Sum& sum) {
  const uint32_t n_segments = n_segments_of(step.x[0].ne[0]);
  const uint32_t n_warps = n_lanes() / kWarp, warp = lane() / kWarp, in_warp = lane() % kWarp;
  Room<Sum> room;
  room.open(step, sum);
  const auto load = [&](const Part& p, uint32_t segment) {
    if (segment < n_segments) sum.template load<kIsWhole>(step, rows_of<Sum>(step, p), segment);
  };
  const bool has_routes = step.x[2].data != 0, is_early = step.u[9] != 0 && !has_routes;
  uint32_t part = group_of(step), turn = 0;
  if (is_early) load(part_of_group(step, part, Sum::kRows), warp);
  wait_for_previous();
  allow_next();
  const uint32_t group = group_with_tokens(step, part);
  if (group == kNoGroup) return;
  Part p = part_of_group(step, group, Sum::kRows);
  if (!is_early) load(p, warp);
  uint32_t known_matrix = ~0u, known_first = ~0u;  // whose activations are in shared memory
  uint32_t scales_turn = 0;
  while (true) {
    read_routes(step, p);
    part += step.n_groups;
    uint32_t next = kNoGroup;
    const uint32_t stride = step.u[1] * Sum::kTokens;
    bool is_used = false;
    for (uint32_t first = p.begin + p.share * Sum::kTokens; first < p.end; first += stride) {
      is_used = true;
      const uint32_t n_tokens = min_of(Sum::kTokens, p.end - first);
      const bool is_known = n_segments <= n_warps && known_matrix == p.matrix && known_first == first;
      float total = 0;
      for (uint32_t begin = 0; begin < n_segments; begin += n_warps, turn ^= 1) {
        const uint32_t segment = begin + warp;
        if (!is_known) scales_turn ^= 1;
        if (segment < n_segments) {
          if (!is_known) {
            sync_warp();  // no lane reads the last segment any more
            for (uint32_t i = 0; i < n_tokens; ++i) {
              const float inverse = Sum::read(step, x_row(step, p, first + i), segment, i, room.x(warp));
              if (in_warp == 0) room.scales(scales_turn, warp)[i] = inverse;
            }
            sync_warp();
          }
          float c[4] = {};
          sum.template multiply<kIsWhole>(step, n_tokens, segment, room.x(warp), c);
          Sum::put(c, n_tokens, room.sums(turn, warp));
        }
        const bool is_last = begin + n_warps >= n_segments, is_of_next = is_last && first + stride >= p.end;
        if (is_of_next) next = group_with_tokens(step, part);
        if (!is_of_next || next != kNoGroup)
          load(is_of_next ? part_of_group(step, next, Sum::kRows) : p, is_last ? warp : segment + n_warps);
        sync_group();
        if (lane() < Sum::kRows * n_tokens)
          room.add(turn, scales_turn, min_of(n_warps, n_segments - begin), lane() / Sum::kRows, lane() % Sum::kRows,
                   total);
      }
      known_matrix = p.matrix;
      known_first = first;
      const uint32_t row = lane() % Sum::kRows, token = lane() / Sum::kRows;
      if (row < p.n_rows && token < n_tokens) y_row(step, p, first + token)[row] = total;
    }
    if (!is_used) {  // a share of an expert with fewer tokens
      next = group_with_tokens(step, part);
      if (warp < n_segments) sum.drop();
      if (next != kNoGroup) load(part_of_group(step, next, Sum::kRows), warp);
    }
    if (next == kNoGroup) return;
    p = part_of_group(step, next, Sum::kRows);
  }
}

TESSERA_KERNEL(matmul_precise, kMostRowsThreads, 1) {
  PreciseSum sum;
  multiply_rows<false>(step, sum);
}

/// Writes a piece of a row of halves. u[1]: 1 for the order of steps, in which the 16 columns of a step of the matrix
/// units are adjacent, as matmul_wide.cu needs them.
__device__ inline void put_piece(const Params& step, uint64_t row, uint32_t column, const Word4& v) {
  if (step.u[1] == 0) {
    *at<Word4>(row + column * 2) = v;
    return;
  }
  const uint64_t block = row + column / kBlock * (kBlock * 2);
  const uint32_t t = column % kBlock / kPiece;
  at<Word2>(block)[t] = {v.x, v.y};
  at<Word2>(block)[t + 4] = {v.z, v.w};
}

/// Rows of x as halves, with zeros up to the end of the padded row: one warp per row and segment.
__device__ inline void convert_x(const Params& step, uint32_t group) {
  const uint32_t k = step.x[1].ne[0], n_segments = n_segments_of(k);
  const uint32_t item = group * (n_lanes() / kWarp) + lane() / kWarp, row = item / n_segments;
  if (row >= n_rows_of_x(step)) return;
  const uint32_t segment = item % n_segments, i = segment * kSegment + lane() % kWarp * kPiece;
  Word4 words;
  const float inverse = halves_of_x(nth_row(step.x[1], row), segment, k, words);
  if (i * 2 < step.u[10]) put_piece(step, step.scratch + uint64_t{row} * step.u[10], i, words);
  if (lane() % kWarp == 0) scales_of_x(step)[row * n_segments + segment] = inverse;
}

TESSERA_KERNEL(matmul_halves, 128) {
  wait_for_previous();
  allow_next();
  convert_x(step, group_of(step));
}

/// The same, and in the blocks from u[0] on the weights as halves: one thread per piece.
template <uint32_t kFormat>
__device__ inline void convert_both(const Params& step) {
  wait_for_previous();
  allow_next();
  if (group_of(step) < step.u[0]) {
    convert_x(step, group_of(step));
    return;
  }
  const uint32_t n_pieces = step.u[10] / (2 * kPiece);
  const uint64_t item = uint64_t{group_of(step) - step.u[0]} * n_lanes() + lane();
  const auto row = static_cast<uint32_t>(item / n_pieces), column = static_cast<uint32_t>(item % n_pieces) * kPiece;
  if (row >= step.x[0].ne[1]) return;
  uint32_t v[4] = {};
  if (column < step.x[0].ne[0]) {
    typename Decoder<kFormat>::Piece piece;
    piece.load(row_of(step.x[0], row, 0, 0), column);
    piece.get(step, v);
  }
  put_piece(step, halves_of_weights(step) + uint64_t{row} * step.u[10], column, {v[0], v[1], v[2], v[3]});
}

// The most threads of a block, and the number of blocks that have to fit a multiprocessor at the same time. Weights in
// shared memory leave room for four small blocks in its registers.
#define TESSERA_BOUNDS(n_threads, n_blocks) n_threads, n_blocks
#define TESSERA_DECODER(name, alignment, plain, columns, room) \
  TESSERA_MATMUL_ROWS(name, kFormat_##name, alignment, plain, room)
#define TESSERA_MATMUL_ROWS(name, format, alignment, plain, room)                 \
  TESSERA_KERNEL(matmul_all_halves_##name, 128) { convert_both<format>(step); }   \
  TESSERA_BATCH_KERNEL(matmul_rows_##name, TESSERA_BOUNDS(kMostRowsThreads, 1)) { \
    if (is_plain(step)) {                                                         \
      SumOf<format, plain, room>::Type sum;                                       \
      multiply_plain_rows(step, sum);                                             \
      return;                                                                     \
    }                                                                             \
    SumOf<format, alignment, room>::Type sum;                                     \
    if (is_whole(step))                                                           \
      multiply_rows<true>(step, sum);                                             \
    else                                                                          \
      multiply_rows<false>(step, sum);                                            \
  }
#include "tessera/cuda/decoders.def"
TESSERA_MATMUL_ROWS(any, kAnyFormat, 1, 1, 0)

}  // namespace tessera::cuda
