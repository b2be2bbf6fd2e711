// Products of few tokens with weights of any format, in the layout of the file (matmul.cuh).
//
// A block computes 16 rows for up to eight tokens at a time; each of its warps takes a segment of the columns. Blocks
// go on to further rows, whose weights they request before they finish the last ones: the speed of these kernels is
// that of memory.
#include "tessera/cuda/kernels/matmul.cuh"

namespace tessera::cuda {

constexpr uint32_t kMostRowsThreads = 512, kGroupRows = 16, kGroupTokens = 8, kOutputs = kGroupRows * kGroupTokens;
// Bytes between the tokens' segments in shared memory: two neighbours fill all banks.
constexpr uint32_t kHalvesStride = kSegment * 2 + 64, kFloatsStride = kSegment * 4 + 64;

/// The sum of a segment for each row and token of a block, and the scales of the activations.
struct SegmentSums {
  float sums[kOutputs];
  float scales[kGroupTokens];
};

/// The loop over rows, tokens and segments. Shared memory: two sets of SegmentSums by warp, used in turns, so that one
/// is read while the next is filled; then the activations of each warp. step.variant: tokens that those have room for.
/// `Sum` computes the sum of a warp's segment:
///   load(step, row0, row1, segment, t): requests the weights of this lane
///   read(step, p, first, n_tokens, segment, scales): brings the activations of a warp's segment to shared memory
///   multiply(step, n_tokens, segment, c): the sums
template <class Sum>
__device__ inline void multiply_rows(const Params& step, Sum& sum) {
  const uint32_t k = step.x[0].ne[0], n_segments = n_segments_of(k);
  const uint32_t n_warps = n_lanes() / kWarp, warp = lane() / kWarp, g = lane() % kWarp / 4, t = lane() % 4;
  const uint32_t n_parts = step.u[0] * step.u[1] * step.u[2];
  auto* sums = reinterpret_cast<SegmentSums*>(dynamic_shared());
  sum.room = dynamic_shared() + 2 * n_warps * sizeof(SegmentSums) + warp * step.variant * Sum::kStride;
  const auto load = [&](const Part& p, uint32_t segment) {
    if (segment >= n_segments) return;
    const uint64_t row0 = p.w + uint64_t{min_of(g, p.n_rows - 1)} * step.x[0].nb[1];
    const uint64_t row1 = p.w + uint64_t{min_of(g + 8, p.n_rows - 1)} * step.x[0].nb[1];
    sum.load(step, row0, row1, segment, t);
  };

  uint32_t part = group_of(step), turn = 0;
  Part p = part_of_group(step, part, kGroupRows);
  const bool is_early = step.u[9] != 0;
  if (is_early) load(p, warp);
  wait_for_previous();
  allow_next();
  if (!is_early) load(p, warp);
  uint32_t known_matrix = ~0u, known_first = ~0u;  // whose activations are in shared memory
  while (true) {
    read_routes(step, p);
    const uint32_t next_part = part + step.n_groups;
    const bool has_next = next_part < n_parts;
    const Part next = part_of_group(step, has_next ? next_part : part, kGroupRows);
    const uint32_t stride = step.u[1] * kGroupTokens;
    bool is_used = false;
    for (uint32_t first = p.begin + p.share * kGroupTokens; first < p.end; first += stride) {
      is_used = true;
      const uint32_t n_tokens = min_of(kGroupTokens, p.end - first);
      const bool is_known = n_segments <= n_warps && known_matrix == p.matrix && known_first == first;
      float total = 0;
      for (uint32_t begin = 0; begin < n_segments; begin += n_warps, turn ^= 1) {
        const uint32_t segment = begin + warp;
        SegmentSums* round = sums + turn * n_warps;
        if (segment < n_segments) {
          float* scales = round[warp].scales;
          if (is_known) {
            if (lane() % kWarp < kGroupTokens)
              scales[lane() % kWarp] = sums[(turn ^ 1) * n_warps + warp].scales[lane() % kWarp];
          } else {
            sum.read(step, p, first, n_tokens, segment, scales);
          }
          float c[4] = {};
          sum.multiply(step, n_tokens, segment, c);
          float* to = round[warp].sums;
          to[g * kGroupTokens + 2 * t] = c[0];
          to[g * kGroupTokens + 2 * t + 1] = c[1];
          to[(g + 8) * kGroupTokens + 2 * t] = c[2];
          to[(g + 8) * kGroupTokens + 2 * t + 1] = c[3];
        }
        if (begin + n_warps < n_segments)
          load(p, segment + n_warps);
        else if (first + stride < p.end)
          load(p, warp);
        else if (has_next)
          load(next, warp);
        sync_group();
        if (lane() < kOutputs)
          for (uint32_t w = 0; w < n_warps && begin + w < n_segments; ++w)
            total = fmaf(round[w].sums[lane()], round[w].scales[lane() % kGroupTokens], total);
      }
      known_matrix = p.matrix;
      known_first = first;
      const uint32_t row = lane() / kGroupTokens, token = lane() % kGroupTokens;
      if (lane() < kOutputs && row < p.n_rows && token < n_tokens) y_row(step, p, first + token)[row] = total;
    }
    if (!has_next) return;
    if (!is_used) load(next, warp);  // an expert without tokens
    p = next;
    part = next_part;
  }
}

template <uint32_t kFormat>
struct HalfSum {
  static constexpr uint32_t kStride = kHalvesStride;
  typename Decoder<kFormat>::Segment low, high;  // of rows g and g + 8
  unsigned char* room;                           // of this warp

  __device__ void load(const Params& step, uint64_t row0, uint64_t row1, uint32_t segment, uint32_t t) {
    const uint32_t n_blocks = (step.x[0].ne[0] - segment * kSegment + kBlock - 1) / kBlock;
    low.load(row0, segment, n_blocks, t);
    high.load(row1, segment, n_blocks, t);
  }
  __device__ void read(const Params& step, const Part& p, uint32_t first, uint32_t n_tokens, uint32_t segment,
                       float* scales) {
    const uint32_t in_warp = lane() % kWarp;
    sync_warp();
    for (uint32_t token = 0; token < n_tokens; ++token) {
      Word4 words;
      const float inverse = halves_of_x(x_row(step, p, first + token), segment, step.x[0].ne[0], words);
      reinterpret_cast<Word4*>(room + token * kStride)[in_warp] = words;
      if (in_warp == 0) scales[token] = inverse;
    }
    sync_warp();
  }
  __device__ void multiply(const Params& step, uint32_t n_tokens, uint32_t segment, float (&c)[4]) {
    const uint32_t g = lane() % kWarp / 4, t = lane() % 4;
    const uint32_t n_blocks = min_of((step.x[0].ne[0] - segment * kSegment + kBlock - 1) / kBlock, kBlocksPerSegment);
#pragma unroll
    for (uint32_t b = 0; b < kBlocksPerSegment; ++b) {
      if (b >= n_blocks) break;
      uint32_t v0[4], v1[4];
      low.get(step, b, v0);
      high.get(step, b, v1);
      Word4 x{0, 0, 0, 0};
      if (g < n_tokens) x = reinterpret_cast<const Word4*>(room + g * kStride)[b * 4 + t];
      const uint32_t first_step[4] = {v0[0], v1[0], v0[1], v1[1]}, second_step[4] = {v0[2], v1[2], v0[3], v1[3]};
      multiply_f16(c, first_step, x.x, x.y);
      multiply_f16(c, second_step, x.z, x.w);
    }
  }
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

struct PreciseSum {
  static constexpr uint32_t kStride = kFloatsStride;
  uint64_t low, high;   // rows g and g + 8
  unsigned char* room;  // of this warp

  __device__ void load(const Params&, uint64_t row0, uint64_t row1, uint32_t, uint32_t) {
    low = row0;
    high = row1;
  }
  __device__ void read(const Params& step, const Part& p, uint32_t first, uint32_t n_tokens, uint32_t segment,
                       float* scales) {
    const uint32_t in_warp = lane() % kWarp;
    sync_warp();
    for (uint32_t token = 0; token < n_tokens; ++token) {
      float v[8];
      x_piece(x_row(step, p, first + token), segment * kSegment + in_warp * kPiece, step.x[0].ne[0], v);
      float* to = reinterpret_cast<float*>(room + token * kStride) + in_warp * kPiece;
      for (uint32_t n = 0; n < kPiece; ++n) to[n] = v[n];
      if (in_warp == 0) scales[token] = 1;
    }
    sync_warp();
  }
  __device__ void multiply(const Params& step, uint32_t n_tokens, uint32_t segment, float (&c)[4]) {
    const uint32_t k = step.x[0].ne[0], g = lane() % kWarp / 4, t = lane() % 4;
#pragma unroll 1
    for (uint32_t i = segment * kSegment; i < min_of(k, (segment + 1) * kSegment); i += kBlock) {
      float v0[8] = {}, v1[8] = {};
      const uint32_t column = i + t * kPiece;
      if (column < k) {
        const uint32_t count = min_of(k - column, kPiece);
#pragma unroll 1
        for (uint32_t r = 0; r < 2; ++r) {
          float v[8];
          decode8_of(step.format, step.tables, r == 0 ? low : high, column, count, v);
#pragma unroll
          for (uint32_t n = 0; n < kPiece; ++n) (r == 0 ? v0[n] : v1[n]) = v[n];
        }
      }
      const float* x = reinterpret_cast<const float*>(room + g * kStride) + column % kSegment;
      for (uint32_t s = 0; s < kPiece; s += 2) {
        const Split w[4] = {split_of(v0[s]), split_of(v1[s]), split_of(v0[s + 1]), split_of(v1[s + 1])};
        const Split a = split_of(g < n_tokens ? x[s] : 0.0f), b = split_of(g < n_tokens ? x[s + 1] : 0.0f);
        const uint32_t w_high[4] = {w[0].high, w[1].high, w[2].high, w[3].high};
        const uint32_t w_low[4] = {w[0].low, w[1].low, w[2].low, w[3].low};
        multiply_tf32(c, w_low, a.high, b.high);
        multiply_tf32(c, w_high, a.low, b.low);
        multiply_tf32(c, w_high, a.high, b.high);
      }
    }
  }
};

TESSERA_KERNEL(matmul_precise, kMostRowsThreads) {
  PreciseSum sum;
  multiply_rows(step, sum);
}

/// Rows of x as halves, with zeros up to the end of the padded row: one warp per row and segment.
__device__ inline void convert_x(const Params& step, uint32_t group) {
  const uint32_t k = step.x[1].ne[0], n_segments = n_segments_of(k);
  const uint32_t item = group * (n_lanes() / kWarp) + lane() / kWarp, row = item / n_segments;
  if (row >= n_rows_of_x(step)) return;
  const uint32_t segment = item % n_segments, i = segment * kSegment + lane() % kWarp * kPiece;
  Word4 words;
  const float inverse = halves_of_x(nth_row(step.x[1], row), segment, k, words);
  if (i * 2 < step.u[10]) *at<Word4>(step.scratch + uint64_t{row} * step.u[10] + i * 2) = words;
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
  *at<Word4>(halves_of_weights(step) + uint64_t{row} * step.u[10] + column * 2) = {v[0], v[1], v[2], v[3]};
}

#define TESSERA_MATMUL_ROWS(name, format)                                       \
  TESSERA_KERNEL(matmul_all_halves_##name, 128) { convert_both<format>(step); } \
  TESSERA_BATCH_KERNEL(matmul_rows_##name, kMostRowsThreads) {                  \
    HalfSum<format> sum;                                                        \
    multiply_rows(step, sum);                                                   \
  }
#define TESSERA_DECODER(name, alignment, columns) TESSERA_MATMUL_ROWS(name, kFormat_##name)
#include "tessera/cuda/decoders.def"
TESSERA_MATMUL_ROWS(any, kAnyFormat)

}  // namespace tessera::cuda
