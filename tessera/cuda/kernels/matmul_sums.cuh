// How a warp of a product of few tokens (matmul.cu) computes the sum of a segment for the rows and tokens of its block.
// Each kind of sum has
//   kRows, kTokens: the rows and tokens of a block
//   kLaneRows: the rows that a lane has weights of: rows g and g + 8 for lanes 4 g to 4 g + 3, or g alone
//   kStride: bytes between the tokens' segments in shared memory
//   load<kIsWhole>(step, rows, segment): requests the weights of a segment; rows are those of this lane
//   looks_ahead(): whether the next segment may be requested before this one is multiplied
//   drop(): forgets what was requested
//   read(step, row, segment, token, x): brings a segment of a row of x to shared memory as that of a token; returns the
//     inverse of its scale. x: the room of the first token
//   multiply<kIsWhole>(step, n_tokens, segment, x, c): the sums, of the segment that was requested first; x as
//     for read()
//   put(c, n_tokens, sums): writes the sums of n_tokens tokens, one row of kRows floats each
#pragma once

#include "tessera/cuda/kernels/math.cuh"
#include "tessera/cuda/kernels/matmul.cuh"

namespace tessera::cuda {

/// The addresses of the rows that a lane has weights of.
template <class Sum>
struct Rows {
  uint64_t at[Sum::kLaneRows];
};

// step.variant: the tokens whose activations have room in shared memory; the segments of a warp whose weights do, from
// bit 8 on; in bit 16, whether the product is plain: one matrix, no routes, at most eight tokens, whole segments, and
// rows of x at multiples of 16 bytes; in bit 17, whether it is gated: x[2] is a second matrix of the same shape, and
// the result is silu(x[0] x) * (x[2] x), or with gelu if u[7] is 1. Only plain products are gated. In bit 18, whether
// all segments are whole; in bit 19, whether there is room for the activations and sums of all segments.
__device__ inline uint32_t room_tokens(const Params& step) { return step.variant & 255; }
__device__ inline uint32_t room_segments(const Params& step) { return step.variant >> 8 & 255; }
__device__ inline bool is_plain(const Params& step) { return (step.variant >> 16 & 1) != 0; }
__device__ inline bool is_whole(const Params& step) { return (step.variant >> 18 & 1) != 0; }
__device__ inline bool has_all_segments(const Params& step) { return (step.variant >> 19 & 1) != 0; }
__device__ inline uint32_t n_matrices(const Params& step) { return 1 + (step.variant >> 17 & 1); }

__device__ inline uint32_t blocks_of_segment(const Params& step, uint32_t segment) {
  return min_of((step.x[0].ne[0] - segment * kSegment + kBlock - 1) / kBlock, kBlocksPerSegment);
}

/// Sums of f16 weights and activations. The weights are the first operand of the matrix units. kIsSplit: the order of
/// columns of Decoder::Segment.
template <bool kIsSplit>
struct HalfActivations {
  static constexpr uint32_t kStride = kSegment * 2, kTokens = 8, kLaneRows = 2, kRows = 8 * kLaneRows;

  /// Pieces of a segment are swapped in every second token, so that the tokens that are read together are in different
  /// banks.
  __device__ static uint32_t swap_of(uint32_t token) { return token % 2 * 4; }
  /// Writes this lane's piece of a token's activations to the room of the first token; returns the inverse of the
  /// scale.
  __device__ static float put_halves(const float (&v)[8], uint32_t token, unsigned char* x) {
    Word4 words;
    const float inverse = halves_of_piece<kIsSplit>(v, words);
    reinterpret_cast<Word4*>(x + token * kStride)[lane() % kWarp ^ swap_of(token)] = words;
    return inverse;
  }
  __device__ static float read(const Params& step, uint64_t row, uint32_t segment, uint32_t token, unsigned char* x) {
    float v[8];
    x_piece(row, segment * kSegment + lane() % kWarp * kPiece, step.x[0].ne[0], v);
    return put_halves(v, token, x);
  }
  /// get(b, n, v): the weights of this lane in block b of its row n. Each column of a result depends on one token
  /// alone.
  template <bool kIsWhole, class Get>
  __device__ static void multiply_blocks(uint32_t n_blocks, uint32_t n_tokens, const unsigned char* x, float (&c)[4],
                                         Get get) {
    const uint32_t g = lane() % kWarp / 4, t = lane() % 4;
    const uint32_t token = min_of(g, n_tokens - 1);
    const auto* of_token = reinterpret_cast<const Word4*>(x + token * kStride) + t;
    const Word4* const of_blocks[2] = {of_token + swap_of(token), of_token + (4 - swap_of(token))};  // even and odd
#pragma unroll
    for (uint32_t b = 0; b < kBlocksPerSegment; ++b) {
      if (!kIsWhole && b >= n_blocks) break;
      const Word4 halves = of_blocks[b % 2][b / 2 * 8];
      uint32_t low[4], high[4];
      get(b, 0, low);
      get(b, 1, high);
      const uint32_t first_step[4] = {low[0], high[0], low[1], high[1]};
      const uint32_t second_step[4] = {low[2], high[2], low[3], high[3]};
      multiply_f16(c, first_step, halves.x, halves.y);
      multiply_f16(c, second_step, halves.z, halves.w);
    }
  }
  __device__ static void put(const float (&c)[4], uint32_t n_tokens, float* sums) {
    const uint32_t g = lane() % kWarp / 4, token = lane() % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i)
      if (token + i < n_tokens) {
        sums[(token + i) * kRows + g] = c[i];
        sums[(token + i) * kRows + g + 8] = c[i + 2];
      }
  }
};

/// Weights that lanes read from global memory.
template <uint32_t kFormat>
struct DirectSum : HalfActivations<Decoder<kFormat>::Segment::kIsSplit> {
  using Base = HalfActivations<Decoder<kFormat>::Segment::kIsSplit>;
  typename Decoder<kFormat>::Segment weights[Base::kLaneRows];

  __device__ void set_weights_room(const Params&, unsigned char*) {}
  __device__ static constexpr bool looks_ahead() { return false; }
  __device__ void drop() {}
  template <bool kIsWhole>
  __device__ void load(const Params& step, const Rows<DirectSum>& rows, uint32_t segment) {
    const uint32_t n_blocks = kIsWhole ? kBlocksPerSegment : blocks_of_segment(step, segment);
#pragma unroll
    for (uint32_t n = 0; n < Base::kLaneRows; ++n) weights[n].load(rows.at[n], segment, n_blocks, lane() % 4);
  }
  template <bool kIsWhole>
  __device__ void multiply(const Params& step, uint32_t n_tokens, uint32_t segment, const unsigned char* x,
                           float (&c)[4]) {
    Base::template multiply_blocks<kIsWhole>(
        blocks_of_segment(step, segment), n_tokens, x, c,
        [&](uint32_t b, uint32_t n, uint32_t(&v)[4]) { weights[n].get(step, b, v); });
  }
};

/// Weights that a warp copies to shared memory in chunks of 16 bytes: lanes 4 g to 4 g + 3 the chunks of rows g and
/// g + 8. A row keeps its place in its first chunk.
template <uint32_t kFormat, uint32_t kAlignment, uint32_t kRowRoom>
struct StagedSum : HalfActivations<SegmentOf<kFormat, kAlignment>::Type::kIsSplit> {
  using Segment = typename SegmentOf<kFormat, kAlignment>::Type;
  using Base = HalfActivations<Segment::kIsSplit>;
  static constexpr uint32_t kChunk = 16, kPlaceBits = 4, kBytes = Segment::kBytes, kSlotBytes = Base::kRows * kRowRoom;
  static constexpr uint32_t kChunks = (kBytes + (kAlignment < kChunk ? kChunk - kAlignment : 0) + kChunk - 1) / kChunk;
  static_assert(kChunks * kChunk <= kRowRoom && kRowRoom % 128 == 32);

  unsigned char* slots;                           // row g in the first slot
  uint32_t slot_mask, n_loaded = 0, n_taken = 0;  // there are two slots, or one
  uint32_t places = 0;                            // of the rows of the last two segments in their first chunks

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
    const uint32_t n_bytes = kIsWholeHere ? kBytes : blocks_of_segment(step, segment) * (kBytes / kBlocksPerSegment);
    const uint32_t first = lane() % 4 * kChunk;
    const SharedAddress slot = shared_address(slots + (n_loaded++ & slot_mask) * kSlotBytes) + first;
    sync_warp();  // no lane reads the slot any more
    places <<= kPlaceBits * Base::kLaneRows;
#pragma unroll
    for (uint32_t n = 0; n < Base::kLaneRows; ++n) {
      const uint64_t from = rows.at[n] + uint64_t{segment} * kBytes;
      const uint32_t in_chunk = place(from);
      places |= in_chunk << n * kPlaceBits;
#pragma unroll
      for (uint32_t offset = 0; offset < kChunks * kChunk; offset += 4 * kChunk)
        if (first + offset < in_chunk + n_bytes)
          copy_async16(slot + n * 8 * kRowRoom + offset, at<void>(from - in_chunk + first + offset));
    }
    commit_copies();
  }
  template <bool kIsWhole>
  __device__ void multiply(const Params& step, uint32_t n_tokens, uint32_t segment, const unsigned char* x,
                           float (&c)[4]) {
    const bool is_next_loaded = n_loaded - n_taken > 1;
    if (is_next_loaded)
      wait_copies<1>();
    else
      wait_copies<0>();
    sync_warp();
    const unsigned char* slot = slots + (n_taken++ & slot_mask) * kSlotBytes;
    const uint32_t of_rows = is_next_loaded ? places >> kPlaceBits * Base::kLaneRows : places;
    Segment weights[Base::kLaneRows];
#pragma unroll
    for (uint32_t n = 0; n < Base::kLaneRows; ++n) {
      const uint32_t in_chunk = kAlignment < kChunk ? of_rows >> n * kPlaceBits & (kChunk - 1) : 0;
      weights[n].open(slot + n * 8 * kRowRoom + in_chunk, lane() % 4);
    }
    Base::template multiply_blocks<kIsWhole>(blocks_of_segment(step, segment), n_tokens, x, c,
                                             [&](uint32_t b, uint32_t n, uint32_t(&v)[4]) { weights[n].get(b, v); });
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
  static constexpr uint32_t kStride = kSegment * 4 + 16, kTokens = 16, kLaneRows = 1, kRows = 8, kChunk = 16;
  unsigned char* row_room;  // of the row of this lane; null if weights are not copied
  uint64_t row;             // whose segment was requested, if they are not copied

  __device__ void set_weights_room(const Params& step, unsigned char* rooms) {
    const uint32_t row = lane() / kWarp * kRows + lane() % kWarp / 4;
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
    row = rows.at[0];
    if (row_room == nullptr) return;
    const uint32_t n_bytes = min_of(step.x[0].ne[0] - segment * kSegment, kSegment) * sizeof(float);
    const uint64_t from = row + uint64_t{segment} * (kSegment * sizeof(float));
    const SharedAddress to = shared_address(row_room);
    sync_warp();  // no lane reads the last segment any more
#pragma unroll
    for (uint32_t i = lane() % 4 * kChunk; i < kSegment * sizeof(float); i += 4 * kChunk)
      if (i < n_bytes) copy_async16(to + i, at<void>(from + i));
  }
  __device__ static float read(const Params& step, uint64_t row, uint32_t segment, uint32_t token, unsigned char* x) {
    const uint32_t column = lane() % kWarp * kPiece, first = segment * kSegment + column, k = step.x[0].ne[0];
    float* to = reinterpret_cast<float*>(x + token * kStride) + column;
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
  __device__ void multiply(const Params& step, uint32_t n_tokens, uint32_t segment, const unsigned char* x,
                           float (&c)[4]) {
    const uint32_t n = min_of(step.x[0].ne[0] - segment * kSegment, kSegment), g = lane() % kWarp / 4;
    const unsigned char* low_token = x + min_of(g, n_tokens - 1) * kStride;
    const unsigned char* high_token = x + min_of(g + 8, n_tokens - 1) * kStride;
    wait_for_copies();
    sync_warp();
    if (row_room != nullptr) {
#pragma unroll 2
      for (uint32_t first = 0; first < n; first += kBlock) {
        const uint32_t i = first + lane() % 4 * kPiece;
        float w[8] = {};
        if (i < n) piece_of(row_room, i, w);
        multiply_piece(low_token, high_token, i, w, c);
      }
      return;
    }
#pragma unroll 1
    for (uint32_t first = 0; first < n; first += kBlock) {
      const uint32_t i = first + lane() % 4 * kPiece;
      float w[8] = {};
      if (i < n) {
        const uint32_t count = min_of(n - i, kPiece);
        decode8_of(step.format, step.tables, row, segment * kSegment + i, count, w);
      }
      multiply_piece(low_token, high_token, i, w, c);
    }
  }

  __device__ static void put(const float (&c)[4], uint32_t n_tokens, float* sums) {
    const uint32_t g = lane() % kWarp / 4, row = lane() % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      if (g + i / 2 * 8 < n_tokens) sums[(g + i / 2 * 8) * kRows + row + i % 2] = c[i];
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

}  // namespace tessera::cuda
