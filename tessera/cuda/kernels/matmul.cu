// Products of few tokens with weights of any format, in the layout of the file (matmul.cuh).
//
// A block computes 16 rows for up to eight tokens at a time. Each of its eight warps takes a segment of the columns. The
// weights of a segment are requested before anything else: the speed of these kernels is that of memory.
#include "tessera/cuda/kernels/matmul.cuh"

namespace tessera::cuda {

constexpr uint32_t kRowsThreads = 256, kRowsWarps = kRowsThreads / kWarp, kGroupRows = 16, kGroupTokens = 8;
constexpr uint32_t kOutputs = kGroupRows * kGroupTokens;
// Bytes between the tokens' segments in shared memory: two neighbours fill all banks.
constexpr uint32_t kHalvesStride = kSegment * 2 + 64, kFloatsStride = kSegment * 4 + 64;

/// The sums of the segments of a round, by warp, and the scales of their activations. There are two, used in turns, so
/// that one is read while the next is filled.
struct Round {
  float sums[kRowsWarps][kOutputs];
  float scales[kRowsWarps][kGroupTokens];
};

/// The loop over tokens and segments. `Sum` computes the sums of a warp's segment:
///   load(row0, row1, segment): requests the weights of this lane
///   multiply(part, first, n_tokens, segment, scales, c): the activations' scales by token, and the sums
template <class Sum>
__device__ inline void multiply_rows(const Params& step, Sum& sum, Round (&rounds)[2]) {
  Part p = part_of_group(step, group_index(), kGroupRows);
  const uint32_t k = step.x[0].ne[0], n_segments = n_segments_of(k), warp = lane() / kWarp;
  const uint32_t g = lane() % kWarp / 4, t = lane() % 4;
  const uint64_t row0 = p.w + uint64_t{min_of(g, p.n_rows - 1)} * step.x[0].nb[1];
  const uint64_t row1 = p.w + uint64_t{min_of(g + 8, p.n_rows - 1)} * step.x[0].nb[1];
  const bool is_early = step.u[9] != 0;
  if (is_early && warp < n_segments) sum.load(step, row0, row1, warp, t);
  wait_for_previous();
  allow_next();
  read_routes(step, p);
  bool is_loaded = is_early;
  for (uint32_t first = p.begin + p.share * kGroupTokens; first < p.end; first += step.u[1] * kGroupTokens) {
    const uint32_t n_tokens = min_of(kGroupTokens, p.end - first);
    float total = 0;
    uint32_t turn = 0;
    for (uint32_t begin = 0; begin < n_segments; begin += kRowsWarps, turn ^= 1) {
      const uint32_t segment = begin + warp;
      Round& round = rounds[turn];
      if (segment < n_segments) {
        if (!is_loaded) sum.load(step, row0, row1, segment, t);
        float c[4] = {};
        sum.multiply(step, p, first, n_tokens, segment, round.scales[warp], c);
        float* sums = round.sums[warp];
        sums[g * kGroupTokens + 2 * t] = c[0];
        sums[g * kGroupTokens + 2 * t + 1] = c[1];
        sums[(g + 8) * kGroupTokens + 2 * t] = c[2];
        sums[(g + 8) * kGroupTokens + 2 * t + 1] = c[3];
      }
      is_loaded = false;
      sync_group();
      if (lane() < kOutputs)
        for (uint32_t w = 0; w < kRowsWarps && begin + w < n_segments; ++w)
          total = fmaf(round.sums[w][lane()], round.scales[w][lane() % kGroupTokens], total);
    }
    const uint32_t row = lane() / kGroupTokens, token = lane() % kGroupTokens;
    if (lane() < kOutputs && row < p.n_rows && token < n_tokens) y_row(step, p, first + token)[row] = total;
    sync_group();
  }
}

template <uint32_t kFormat>
struct HalfSum {
  typename Decoder<kFormat>::Segment low, high;  // of rows g and g + 8
  unsigned char* room;                           // of this warp

  __device__ void load(const Params& step, uint64_t row0, uint64_t row1, uint32_t segment, uint32_t t) {
    const uint32_t n_blocks = (step.x[0].ne[0] - segment * kSegment + kBlock - 1) / kBlock;
    low.load(row0, segment, n_blocks, t);
    high.load(row1, segment, n_blocks, t);
  }
  __device__ void multiply(const Params& step, const Part& p, uint32_t first, uint32_t n_tokens, uint32_t segment,
                           float* scales, float (&c)[4]) {
    const uint32_t k = step.x[0].ne[0], in_warp = lane() % kWarp, g = in_warp / 4, t = in_warp % 4;
    sync_warp();
    for (uint32_t token = 0; token < n_tokens; ++token) {
      Word4 words;
      const float inverse = halves_of_x(x_row(step, p, first + token), segment, k, words);
      reinterpret_cast<Word4*>(room + token * kHalvesStride)[in_warp] = words;
      if (in_warp == 0) scales[token] = inverse;
    }
    sync_warp();
    const uint32_t n_blocks = min_of((k - segment * kSegment + kBlock - 1) / kBlock, kBlocksPerSegment);
#pragma unroll
    for (uint32_t b = 0; b < kBlocksPerSegment; ++b) {
      if (b >= n_blocks) break;
      uint32_t v0[4], v1[4];
      low.get(step, b, v0);
      high.get(step, b, v1);
      Word4 x{0, 0, 0, 0};
      if (g < n_tokens) x = reinterpret_cast<const Word4*>(room + g * kHalvesStride)[b * 4 + t];
      const uint32_t first_step[4] = {v0[0], v1[0], v0[1], v1[1]}, second_step[4] = {v0[2], v1[2], v0[3], v1[3]};
      multiply_f16(c, first_step, x.x, x.y);
      multiply_f16(c, second_step, x.z, x.w);
    }
  }
};

template <uint32_t kFormat>
__device__ inline void matmul_rows(const Params& step) {
  __shared__ Round rounds[2];
  __align__(16) __shared__ unsigned char rooms[kRowsWarps][kGroupTokens * kHalvesStride];
  HalfSum<kFormat> sum;
  sum.room = rooms[lane() / kWarp];
  multiply_rows(step, sum, rounds);
}

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
  uint64_t low, high;   // rows g and g + 8
  unsigned char* room;  // of this warp

  __device__ void load(const Params&, uint64_t row0, uint64_t row1, uint32_t, uint32_t) {
    low = row0;
    high = row1;
  }
  __device__ void multiply(const Params& step, const Part& p, uint32_t first, uint32_t n_tokens, uint32_t segment,
                           float* scales, float (&c)[4]) {
    const uint32_t k = step.x[0].ne[0], in_warp = lane() % kWarp, g = in_warp / 4, t = in_warp % 4;
    sync_warp();
    for (uint32_t token = 0; token < n_tokens; ++token) {
      float v[8];
      x_piece(x_row(step, p, first + token), segment * kSegment + in_warp * kPiece, k, v);
      float* to = reinterpret_cast<float*>(room + token * kFloatsStride) + in_warp * kPiece;
      for (uint32_t n = 0; n < kPiece; ++n) to[n] = v[n];
      if (in_warp == 0) scales[token] = 1;
    }
    sync_warp();
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
      const float* x = reinterpret_cast<const float*>(room + g * kFloatsStride) + column % kSegment;
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

TESSERA_KERNEL(matmul_precise, kRowsThreads) {
  if (group_index() >= step.n_groups) return;
  Round(&rounds)[2] = *reinterpret_cast<Round(*)[2]>(dynamic_shared());
  PreciseSum sum;
  sum.room = dynamic_shared() + sizeof(Round) * 2 + lane() / kWarp * (kGroupTokens * kFloatsStride);
  multiply_rows(step, sum, rounds);
}

/// Rows of x as halves, with zeros up to the end of the padded row: one warp per row and segment.
TESSERA_KERNEL(matmul_halves, 128) {
  wait_for_previous();
  allow_next();
  const uint32_t k = step.x[1].ne[0], n_segments = n_segments_of(k);
  const uint32_t item = group_index() * (n_lanes() / kWarp) + lane() / kWarp, row = item / n_segments;
  if (row >= n_rows_of_x(step)) return;
  const uint32_t segment = item % n_segments, i = segment * kSegment + lane() % kWarp * kPiece;
  Word4 words;
  const float inverse = halves_of_x(nth_row(step.x[1], row), segment, k, words);
  if (i * 2 < step.u[10]) *at<Word4>(step.scratch + uint64_t{row} * step.u[10] + i * 2) = words;
  if (lane() % kWarp == 0) scales_of_x(step)[row * n_segments + segment] = inverse;
}

#define TESSERA_MATMUL_ROWS(name, format)                     \
  TESSERA_KERNEL(matmul_rows_##name, kRowsThreads) {          \
    if (group_index() >= step.n_groups) return;               \
    matmul_rows<format>(step);                                \
  }
TESSERA_MATMUL_ROWS(f16, kFormat_f16)
TESSERA_MATMUL_ROWS(q4_0, kFormat_q4_0)
TESSERA_MATMUL_ROWS(q8_0, kFormat_q8_0)
TESSERA_MATMUL_ROWS(q4_k, kFormat_q4_k)
TESSERA_MATMUL_ROWS(q5_k, kFormat_q5_k)
TESSERA_MATMUL_ROWS(q6_k, kFormat_q6_k)
TESSERA_MATMUL_ROWS(any, kAnyFormat)

}  // namespace tessera::cuda
