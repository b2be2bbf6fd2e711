// Products of few tokens with weights of any format, in the layout of the file (matmul.cuh).
//
// A block computes a few rows for a few tokens at a time; each of its warps takes a segment of the columns. Blocks go
// on to further rows, whose weights they request before they finish the last ones. The time of a product of one token
// is that of reading its weights and of the instructions of one warp, so the groups of rows are small.
//
// Tokens are the rows of the matrix units' first operand, weights the columns of the second one: a tile of 16 tokens
// and eight rows.
#include "tessera/cuda/kernels/math.cuh"
#include "tessera/cuda/kernels/matmul.cuh"

namespace tessera::cuda {

constexpr uint32_t kMostRowsThreads = 512, kTileRows = 8;
// Bytes between the tokens' segments in shared memory: neighbours are in different banks.
constexpr uint32_t kHalvesStride = kSegment * 2 + 64, kFloatsStride = kSegment * 4 + 16;

// The kernels differ in how a warp computes the sum of its segment (`Sum`):
//   kTiles, kTokens: tiles and tokens of a block. With eight tokens, half of a tile is not used.
//   load<kIsWhole>(step, rows, segment): requests the weights of a segment; rows are those of this lane
//   looks_ahead(): whether the next segment may be requested before this one is multiplied
//   drop(): forgets what was requested
//   read(step, p, token, segment, i): brings the activations of a warp's segment to shared memory, for token i of those
//     multiplied together; returns the inverse of their scale. read_plain is the same for plain products.
//   multiply<kIsWhole>(step, rows, n_tokens, segment, c): the sums, of the segment that was requested first; those of
//     tokens from n_tokens on have no meaning
template <class Sum>
constexpr uint32_t kGroupRows = Sum::kTiles* kTileRows;

/// The sum of a segment for each token and row of a block, and the scales of the activations.
template <class Sum>
struct SegmentSums {
  float sums[Sum::kTokens * kGroupRows<Sum>];
  float scales[Sum::kTokens];
};

/// The addresses of the rows that a lane has weights of: row g of each tile.
template <class Sum>
struct Rows {
  uint64_t at[Sum::kTiles];
};

// step.variant: the tokens whose activations have room in shared memory; the segments of a warp whose weights do, from
// bit 8 on; in bit 16, whether the product is plain: one matrix, no routes, at most eight tokens, whole segments, and
// rows of x at multiples of 16 bytes; in bit 17, whether it is gated: x[2] is a second matrix of the same shape, and
// the result is silu(x[0] x) * (x[2] x), or with gelu if u[7] is 1. Only plain products are gated. In bit 18, whether
// all segments are whole.
__device__ inline uint32_t room_tokens(const Params& step) { return step.variant & 255; }
__device__ inline uint32_t room_segments(const Params& step) { return step.variant >> 8 & 255; }
__device__ inline bool is_plain(const Params& step) { return (step.variant >> 16 & 1) != 0; }
__device__ inline bool is_whole(const Params& step) { return (step.variant >> 18 & 1) != 0; }
__device__ inline uint32_t n_matrices(const Params& step) { return 1 + (step.variant >> 17 & 1); }

/// Rows from `first` on, of which the last is n_rows - 1.
template <class Sum>
__device__ inline Rows<Sum> rows_from(const Params& step, uint64_t weights, uint32_t first, uint32_t n_rows) {
  Rows<Sum> rows;
  for (uint32_t tile = 0; tile < Sum::kTiles; ++tile) {
    const uint32_t row = first + tile * kTileRows + lane() % kWarp / 4;
    rows.at[tile] = weights + uint64_t{min_of(row, n_rows - 1)} * step.x[0].nb[1];
  }
  return rows;
}
template <class Sum>
__device__ inline Rows<Sum> rows_of(const Params& step, const Part& p) {
  return rows_from<Sum>(step, p.w, 0, p.n_rows);
}
__device__ inline uint32_t blocks_of_segment(const Params& step, uint32_t segment) {
  return min_of((step.x[0].ne[0] - segment * kSegment + kBlock - 1) / kBlock, kBlocksPerSegment);
}

/// Shared memory: two sets of SegmentSums by warp, used in turns, so that one is read while the next is filled; then
/// the activations of each warp; then weights.
template <class Sum>
__device__ inline void set_rooms(const Params& step, Sum& sum) {
  const uint32_t n_warps = n_lanes() / kWarp, warp = lane() / kWarp;
  unsigned char* rooms = dynamic_shared() + 2 * n_warps * sizeof(SegmentSums<Sum>);
  sum.room = rooms + warp * room_tokens(step) * Sum::kStride;
  sum.set_weights_room(step, rooms + n_warps * room_tokens(step) * Sum::kStride);
}

template <class Sum>
__device__ inline void put_sums(SegmentSums<Sum>& sums, const float (&c)[Sum::kTiles][4], float scale) {
  const uint32_t in_warp = lane() % kWarp;
  float* to = sums.sums + in_warp / 4 * kGroupRows<Sum> + 2 * (in_warp % 4);
#pragma unroll
  for (uint32_t tile = 0; tile < Sum::kTiles; ++tile)
#pragma unroll
    for (uint32_t i = 0; i < Sum::kTokens / 4; ++i)
      to[i / 2 * 8 * kGroupRows<Sum> + tile * kTileRows + i % 2] = c[tile][i];
  if (in_warp < Sum::kTokens) sums.scales[in_warp] = scale;
}

/// Adds the sums of segments, in order, for the token and row of this thread.
template <class Sum>
__device__ inline void add_sums(const SegmentSums<Sum>* round, uint32_t n, float& total) {
  const uint32_t token = lane() / kGroupRows<Sum>;
#pragma unroll 8
  for (uint32_t w = 0; w < n; ++w) total = fmaf(round[w].sums[lane()], round[w].scales[token], total);
}

/// The rows of plain products in the order of a block: every n-th group of rows, in each of the matrices.
struct PlainPart {
  uint32_t matrix, group;
};
__device__ inline PlainPart next_of(const Params& step, const PlainPart& part) {
  if (part.matrix + 1 < n_matrices(step)) return {part.matrix + 1, part.group};
  return {0, part.group + step.n_groups};
}

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

/// The loop over rows and segments of plain products. All that is not needed for those is left out: with few tokens the
/// time of a product is that of one warp's instructions.
template <class Sum>
__device__ inline void multiply_plain_rows(const Params& step, Sum& sum) {
  const uint32_t n_segments = step.x[0].ne[0] / kSegment, n_rows = step.x[0].ne[1], n_tokens = step.u[3];
  const uint32_t n_warps = n_lanes() / kWarp, warp = lane() / kWarp, in_warp = lane() % kWarp;
  auto* sums = reinterpret_cast<SegmentSums<Sum>*>(dynamic_shared());
  set_rooms(step, sum);
  const auto rows_of_part = [&](const PlainPart& part) {
    const uint64_t weights = part.matrix == 0 ? step.x[0].data : step.x[2].data;
    return rows_from<Sum>(step, weights, part.group * kGroupRows<Sum>, n_rows);
  };
  const auto load = [&](const Rows<Sum>& rows, uint32_t segment) {
    if (segment < n_segments) sum.template load<true>(step, rows, segment);
  };

  PlainPart part{0, group_of(step)};
  uint32_t begin = 0, turn = 0;
  Rows<Sum> rows = rows_of_part(part);
  const bool is_early = step.u[9] != 0;
  if (is_early) load(rows, warp);
  wait_for_previous();
  allow_next();
  if (!is_early) load(rows, warp);
  bool is_known = false;  // the activations are in shared memory
  float total = 0, gate = 0, scale = 0;
  while (true) {
    const bool is_last = begin + n_warps >= n_segments;
    const PlainPart next_part = is_last ? next_of(step, part) : part;
    const uint32_t next_begin = is_last ? 0 : begin + n_warps;
    const bool has_next = next_part.group < step.u[0];
    const Rows<Sum> next_rows = is_last ? rows_of_part(next_part) : rows;
    const uint32_t segment = begin + warp;
    SegmentSums<Sum>* round = sums + turn * n_warps;
    if (Sum::looks_ahead() && has_next) load(next_rows, next_begin + warp);
    if (segment < n_segments) {
      if (!is_known) {
        sync_warp();  // no lane reads the last segment any more
        for (uint32_t token = 0; token < n_tokens; ++token) {
          const float inverse = sum.read_plain(step, token, segment);
          if (in_warp == token) scale = inverse;
        }
        sync_warp();
      }
      float c[Sum::kTiles][4] = {};
      sum.template multiply<true>(step, rows, n_tokens, segment, c);
      put_sums<Sum>(round[warp], c, scale);
    }
    if (!Sum::looks_ahead() && has_next) load(next_rows, next_begin + warp);
    if (!has_next) prefetch_later(step);
    sync_group();
    if (lane() < kGroupRows<Sum> * n_tokens) {
      add_sums<Sum>(round, min_of(n_warps, n_segments - begin), total);
      if (is_last) {
        if (part.matrix + 1 < n_matrices(step)) {
          gate = total;
        } else {
          const uint32_t row = part.group * kGroupRows<Sum> + lane() % kGroupRows<Sum>;
          float* y = floats(step.y.data + uint64_t{lane() / kGroupRows<Sum>} * step.u[5]);
          if (row < n_rows) y[row] = n_matrices(step) == 1 ? total : gated(step, gate, total);
        }
        total = 0;
      }
    }
    if (!has_next) return;
    is_known = n_segments <= n_warps;
    part = next_part;
    begin = next_begin;
    rows = next_rows;
    turn ^= 1;
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
  auto* sums = reinterpret_cast<SegmentSums<Sum>*>(dynamic_shared());
  set_rooms(step, sum);
  const auto load = [&](const Part& p, uint32_t segment) {
    if (segment < n_segments) sum.template load<kIsWhole>(step, rows_of<Sum>(step, p), segment);
  };
  const bool has_routes = step.x[2].data != 0, is_early = step.u[9] != 0 && !has_routes;
  uint32_t part = group_of(step), turn = 0;
  if (is_early) load(part_of_group(step, part, kGroupRows<Sum>), warp);
  wait_for_previous();
  allow_next();
  const uint32_t group = group_with_tokens(step, part);
  if (group == kNoGroup) return;
  Part p = part_of_group(step, group, kGroupRows<Sum>);
  if (!is_early) load(p, warp);
  uint32_t known_matrix = ~0u, known_first = ~0u;  // whose activations are in shared memory
  float scale = 0;
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
        SegmentSums<Sum>* round = sums + turn * n_warps;
        if (segment < n_segments) {
          if (!is_known) {
            sync_warp();  // no lane reads the last segment any more
            for (uint32_t i = 0; i < n_tokens; ++i) {
              const float inverse = sum.read(step, p, first + i, segment, i);
              if (in_warp == i) scale = inverse;
            }
            sync_warp();
          }
          float c[Sum::kTiles][4] = {};
          sum.template multiply<kIsWhole>(step, rows_of<Sum>(step, p), n_tokens, segment, c);
          put_sums<Sum>(round[warp], c, scale);
        }
        const bool is_last = begin + n_warps >= n_segments, is_of_next = is_last && first + stride >= p.end;
        if (is_of_next) next = group_with_tokens(step, part);
        if (!is_of_next || next != kNoGroup)
          load(is_of_next ? part_of_group(step, next, kGroupRows<Sum>) : p, is_last ? warp : segment + n_warps);
        sync_group();
        if (lane() < kGroupRows<Sum> * n_tokens) add_sums<Sum>(round, min_of(n_warps, n_segments - begin), total);
      }
      known_matrix = p.matrix;
      known_first = first;
      const uint32_t row = lane() % kGroupRows<Sum>, token = lane() / kGroupRows<Sum>;
      if (row < p.n_rows && token < n_tokens) y_row(step, p, first + token)[row] = total;
    }
    if (!is_used) {  // a share of an expert with fewer tokens
      next = group_with_tokens(step, part);
      if (warp < n_segments) sum.drop();
      if (next != kNoGroup) load(part_of_group(step, next, kGroupRows<Sum>), warp);
    }
    if (next == kNoGroup) return;
    p = part_of_group(step, next, kGroupRows<Sum>);
  }
}

/// Sums of f16 weights and activations.
struct HalfActivations {
  static constexpr uint32_t kStride = kHalvesStride, kTokens = 8;
  unsigned char* room;  // of this warp

  __device__ float read(const Params& step, const Part& p, uint32_t token, uint32_t segment, uint32_t i) const {
    Word4 words;
    const float inverse = halves_of_x(x_row(step, p, token), segment, step.x[0].ne[0], words);
    reinterpret_cast<Word4*>(room + i * kStride)[lane() % kWarp] = words;
    return inverse;
  }
  __device__ float read_plain(const Params& step, uint32_t token, uint32_t segment) const {
    const uint64_t from = step.x[1].data + uint64_t{token} * step.u[4] + uint64_t{segment} * (kSegment * sizeof(float));
    float v[8];
    x_piece_of_aligned(from + lane() % kWarp * (kPiece * sizeof(float)), v);
    Word4 words;
    const float inverse = halves_of_piece(v, words);
    reinterpret_cast<Word4*>(room + token * kStride)[lane() % kWarp] = words;
    return inverse;
  }
  /// get(b, tile, v): the weights of this lane in block b of its row of a tile. Each row of a result depends on one
  /// token alone.
  template <bool kIsWhole, uint32_t kTiles, class Get>
  __device__ void multiply_blocks(uint32_t n_blocks, uint32_t n_tokens, float (&c)[kTiles][4], Get get) const {
    const uint32_t g = lane() % kWarp / 4, t = lane() % 4;
    const auto* x = reinterpret_cast<const Word4*>(room + min_of(g, n_tokens - 1) * kStride) + t;
#pragma unroll
    for (uint32_t b = 0; b < kBlocksPerSegment; ++b) {
      if (!kIsWhole && b >= n_blocks) break;
      const Word4 a = x[b * 4];
      const uint32_t first_step[4] = {a.x, 0, a.y, 0}, second_step[4] = {a.z, 0, a.w, 0};
#pragma unroll
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        uint32_t v[4];
        get(b, tile, v);
        multiply_f16(c[tile], first_step, v[0], v[1]);
        multiply_f16(c[tile], second_step, v[2], v[3]);
      }
    }
  }
};

/// Weights that lanes read from global memory.
template <uint32_t kFormat>
struct DirectSum : HalfActivations {
  static constexpr uint32_t kTiles = 2;  // more of them are in flight
  typename Decoder<kFormat>::Segment weights[kTiles];

  __device__ void set_weights_room(const Params&, unsigned char*) {}
  __device__ static constexpr bool looks_ahead() { return false; }
  __device__ void drop() {}
  template <bool kIsWhole>
  __device__ void load(const Params& step, const Rows<DirectSum>& rows, uint32_t segment) {
    const uint32_t n_blocks = kIsWhole ? kBlocksPerSegment : blocks_of_segment(step, segment);
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) weights[tile].load(rows.at[tile], segment, n_blocks, lane() % 4);
  }
  template <bool kIsWhole>
  __device__ void multiply(const Params& step, const Rows<DirectSum>&, uint32_t n_tokens, uint32_t segment,
                           float (&c)[kTiles][4]) const {
    multiply_blocks<kIsWhole>(blocks_of_segment(step, segment), n_tokens, c,
                              [&](uint32_t b, uint32_t tile, uint32_t(&v)[4]) { weights[tile].get(step, b, v); });
  }
};

/// Weights that a warp copies to shared memory in chunks of 16 bytes: lanes 4 g to 4 g + 3 the chunks of row g. A row
/// keeps its place in its first chunk.
template <uint32_t kFormat, uint32_t kAlignment, uint32_t kRowRoom>
struct StagedSum : HalfActivations {
  using Segment = typename Decoder<kFormat>::Segment;
  static constexpr uint32_t kTiles = 1, kChunk = 16, kBytes = Segment::kBytes, kSlotBytes = kTileRows * kRowRoom;
  static constexpr uint32_t kChunks = (kBytes + (kAlignment < kChunk ? kChunk - kAlignment : 0) + kChunk - 1) / kChunk;
  static_assert(kChunks * kChunk <= kRowRoom && kRowRoom % 128 == 32);

  unsigned char* slots;                           // the row of this lane in the first slot
  uint32_t slot_mask, n_loaded = 0, n_taken = 0;  // there are two slots, or one

  __device__ void set_weights_room(const Params& step, unsigned char* rooms) {
    slot_mask = room_segments(step) - 1;
    slots = rooms + lane() / kWarp * room_segments(step) * kSlotBytes + lane() % kWarp / 4 * kRowRoom;
  }
  __device__ static constexpr bool looks_ahead() { return true; }
  __device__ void drop() {
    wait_copies<0>();
    ++n_taken;
  }
  __device__ static uint32_t place(uint64_t address) {
    return kAlignment < kChunk ? static_cast<uint32_t>(address) % kChunk : 0;
  }
  template <bool kIsWhole>
  __device__ void load(const Params& step, const Rows<StagedSum>& rows, uint32_t segment) {
    constexpr bool kIsWholeHere = kIsWhole || kBytes % kBlocksPerSegment != 0 || kAlignment == kChunk;
    const uint64_t from = rows.at[0] + uint64_t{segment} * kBytes;
    const uint32_t in_chunk = place(from), first = lane() % 4 * kChunk;
    const uint32_t n_bytes = kIsWholeHere ? kBytes : blocks_of_segment(step, segment) * (kBytes / kBlocksPerSegment);
    const SharedAddress to = shared_address(slots + (n_loaded++ & slot_mask) * kSlotBytes) + first;
    sync_warp();  // no lane reads the slot any more
#pragma unroll
    for (uint32_t offset = 0; offset < kChunks * kChunk; offset += 4 * kChunk)
      if (first + offset < in_chunk + n_bytes) copy_async16(to + offset, at<void>(from - in_chunk + first + offset));
    commit_copies();
  }
  template <bool kIsWhole>
  __device__ void multiply(const Params& step, const Rows<StagedSum>& rows, uint32_t n_tokens, uint32_t segment,
                           float (&c)[kTiles][4]) {
    if (n_loaded - n_taken > 1)
      wait_copies<1>();
    else
      wait_copies<0>();
    sync_warp();
    Segment weights;
    const uint32_t in_chunk = place(rows.at[0] + uint64_t{segment} * kBytes);
    weights.open(slots + (n_taken++ & slot_mask) * kSlotBytes + in_chunk, lane() % 4);
    multiply_blocks<kIsWhole>(blocks_of_segment(step, segment), n_tokens, c,
                              [&](uint32_t b, uint32_t, uint32_t(&v)[4]) { weights.get(b, v); });
  }
};

template <uint32_t kFormat, uint32_t kAlignment, uint32_t kRowRoom>
struct SumOf {
  using Type = StagedSum<kFormat, kAlignment, kRowRoom>;
};
template <uint32_t kFormat, uint32_t kAlignment>
struct SumOf<kFormat, kAlignment, 0> {
  using Type = DirectSum<kFormat>;
};

/// An f32 as the sum of two tf32.
struct Split {
  uint32_t high, low;
};
__device__ inline Split split_of(float v) {
  const uint32_t high = tf32_of(v);
  const float rest = v - float_of(high);
  // What is left of an infinity is not a number; the rest of a number beyond tf32's range is of no use either.
  return {high, fabsf(v) <= FLT_MAX && fabsf(float_of(high)) <= FLT_MAX ? tf32_of(rest) : 0};
}

/// Sums in the precision of f32. Floats in whole pieces at multiples of 16 bytes are copied to shared memory, so that a
/// warp waits once for a segment of weights. Other weights are read from global memory piece by piece.
struct PreciseSum {
  static constexpr uint32_t kStride = kFloatsStride, kTiles = 1, kTokens = 16, kChunk = 16;
  unsigned char* room;      // of this warp
  unsigned char* row_room;  // of the row of this lane; null if weights are not copied

  __device__ void set_weights_room(const Params& step, unsigned char* rooms) {
    const uint32_t row = lane() / kWarp * kTileRows + lane() % kWarp / 4;
    row_room = room_segments(step) == 0 ? nullptr : rooms + row * kStride;
  }
  __device__ void drop() { wait_for_copies(); }
  __device__ static void wait_for_copies() {
    commit_copies();
    wait_copies<0>();
  }
  /// Lanes 4 g to 4 g + 3 copy row g.
  template <bool kIsWhole>
  __device__ void load(const Params& step, const Rows<PreciseSum>& rows, uint32_t segment) {
    if (row_room == nullptr) return;
    const uint32_t n_bytes = min_of(step.x[0].ne[0] - segment * kSegment, kSegment) * sizeof(float);
    const uint64_t from = rows.at[0] + uint64_t{segment} * (kSegment * sizeof(float));
    const SharedAddress to = shared_address(row_room);
    sync_warp();  // no lane reads the last segment any more
#pragma unroll
    for (uint32_t i = lane() % 4 * kChunk; i < kSegment * sizeof(float); i += 4 * kChunk)
      if (i < n_bytes) copy_async16(to + i, at<void>(from + i));
  }
  __device__ float read(const Params& step, const Part& p, uint32_t token, uint32_t segment, uint32_t i) const {
    const uint32_t column = lane() % kWarp * kPiece, first = segment * kSegment + column, k = step.x[0].ne[0];
    const uint64_t row = x_row(step, p, token);
    float* to = reinterpret_cast<float*>(room + i * kStride) + column;
    if (first + kPiece <= k && is_wide(row)) {
      const uint64_t from = row + uint64_t{first} * sizeof(float);
      copy_async16(to, at<void>(from));
      copy_async16(to + kPiece / 2, at<void>(from + kChunk));
      return 1;
    }
    float v[8];
    x_piece(row, first, k, v);
    for (uint32_t n = 0; n < kPiece; ++n) to[n] = v[n];
    return 1;
  }
  template <bool kIsWhole>
  __device__ void multiply(const Params& step, const Rows<PreciseSum>& rows, uint32_t n_tokens, uint32_t segment,
                           float (&c)[kTiles][4]) {
    const uint32_t n = min_of(step.x[0].ne[0] - segment * kSegment, kSegment), g = lane() % kWarp / 4;
    const unsigned char* low_token = room + min_of(g, n_tokens - 1) * kStride;
    const unsigned char* high_token = room + min_of(g + 8, n_tokens - 1) * kStride;
    wait_for_copies();
    sync_warp();
    if (row_room != nullptr) {
#pragma unroll 2
      for (uint32_t first = 0; first < n; first += kBlock) {
        const uint32_t i = first + lane() % 4 * kPiece;
        float w[8] = {};
        if (i < n) piece_of(row_room, i, w);
        multiply_piece(low_token, high_token, i, w, c[0]);
      }
      return;
    }
#pragma unroll 1
    for (uint32_t first = 0; first < n; first += kBlock) {
      const uint32_t i = first + lane() % 4 * kPiece;
      float w[8] = {};
      if (i < n) {
        const uint32_t count = min_of(n - i, kPiece);
        decode8_of(step.format, step.tables, rows.at[0], segment * kSegment + i, count, w);
      }
      multiply_piece(low_token, high_token, i, w, c[0]);
    }
  }

  /// Eight floats in shared memory.
  __device__ static void piece_of(const unsigned char* row, uint32_t i, float (&v)[8]) {
    const auto* from = reinterpret_cast<const Float4*>(row + i * sizeof(float));
    const Float4 low = from[0], high = from[1];
    for (uint32_t n = 0; n < 4; ++n) {
      v[n] = low.v[n];
      v[n + 4] = high.v[n];
    }
  }
  __device__ static void multiply_piece(const unsigned char* low_token, const unsigned char* high_token, uint32_t i,
                                        const float (&w)[8], float (&c)[4]) {
    float x[8], y[8];
    piece_of(low_token, i, x);
    piece_of(high_token, i, y);
#pragma unroll
    for (uint32_t s = 0; s < kPiece; s += 2) {
      const Split v = split_of(w[s]), u = split_of(w[s + 1]);
      const Split a[4] = {split_of(x[s]), split_of(y[s]), split_of(x[s + 1]), split_of(y[s + 1])};
      const uint32_t high[4] = {a[0].high, a[1].high, a[2].high, a[3].high};
      const uint32_t low[4] = {a[0].low, a[1].low, a[2].low, a[3].low};
      multiply_tf32(c, high, v.low, u.low);
      multiply_tf32(c, low, v.high, u.high);
      multiply_tf32(c, high, v.high, u.high);
    }
  }
};

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

// The second bound is the number of blocks that have to fit a multiprocessor at the same time: weights in shared memory
// leave room for two in its registers.
#define TESSERA_BOUNDS(n_threads, n_blocks) n_threads, n_blocks
#define TESSERA_DECODER(name, alignment, columns, room) TESSERA_MATMUL_ROWS(name, kFormat_##name, alignment, room)
#define TESSERA_MATMUL_ROWS(name, format, alignment, room)                                          \
  TESSERA_KERNEL(matmul_all_halves_##name, 128) { convert_both<format>(step); }                     \
  TESSERA_BATCH_KERNEL(matmul_rows_##name, TESSERA_BOUNDS(kMostRowsThreads, (room) == 0 ? 1 : 2)) { \
    SumOf<format, alignment, room>::Type sum;                                                       \
    if (is_plain(step))                                                                             \
      multiply_plain_rows(step, sum);                                                               \
    else if (is_whole(step))                                                                        \
      multiply_rows<true>(step, sum);                                                               \
    else                                                                                            \
      multiply_rows<false>(step, sum);                                                              \
  }
#include "tessera/cuda/decoders.def"
TESSERA_MATMUL_ROWS(any, kAnyFormat, 1, 0)

}  // namespace tessera::cuda
