// Shared by the kernels of products. They define the order of summation, which is the same for any number of tokens and
// in every kernel. So the bits of a token's results do not depend on its batch.
//
// A segment is 256 columns. The matrix units sum a segment in 16 steps of 16 columns, in order, from 0. The sums of the
// segments are added in order. Activations are f16 with a power of two per token and segment as their scale: a sum is
// multiplied by it when it is added. Columns keep an order inside a step that lets a lane read 16 bytes at a time: lane
// part t has the columns 8 t to 8 t + 7 of a block of 32, the first four in the first step.
//
// Precise products (formats f32 and bf16, and all formats on request) split each f32 in two tf32 and sum three
// products, in steps of 8 columns.
//   x[0]: weights [k, n, n_matrices]; x[1]: rows of x; x[2]: routes or absent
//   u[0]: row groups; u[1]: blocks per matrix for its tokens; u[2]: n_matrices; u[3]: n_tokens
//   u[4], u[5]: bytes between tokens of x and of y; u[6], u[7]: bytes between heads (matrices) of x and of y
//   u[8]: pairs per token if x has one row per token, else 0
//   u[9]: 1 if the weights are not computed by another kernel; u[10]: bytes of a row of halves
//   u[11]: rows of x per token (heads)
// scratch: all rows of x as halves, then their scales by row and segment (matmul_halves); at the offset in x[8].ne[0]
// and ne[1] (lower word first), if that is not 0, the weights as halves (matmul_all_halves)
#pragma once

#include "tessera/cuda/kernels/halves.cuh"

namespace tessera::cuda {

__device__ inline uint32_t n_segments_of(uint32_t k) { return (k + kSegment - 1) / kSegment; }

/// The part of the product that a block computes.
struct Part {
  uint64_t w;  // address of its first row
  uint32_t matrix, row, n_rows, begin, end, share;
};

__device__ inline Part part_of_group(const Params& step, uint32_t group, uint32_t n_group_rows) {
  Part p{.w = 0, .matrix = 0, .row = group, .n_rows = 0, .begin = 0, .end = 0, .share = 0};
  if (step.u[1] * step.u[2] != 1) {  // divisions take long
    p.matrix = group / step.u[0] / step.u[1];
    p.row = group % step.u[0];
    p.share = group / step.u[0] % step.u[1];
  }
  p.row *= n_group_rows;
  p.n_rows = min_of(n_group_rows, step.x[0].ne[1] - p.row);
  p.w = row_of(step.x[0], p.row, p.matrix, 0);
  p.end = step.u[3];
  return p;
}
/// Sets the range of tokens of the part; reads the routes.
__device__ inline void read_routes(const Params& step, Part& p) {
  if (step.x[2].data == 0) return;
  const int32_t* routes = ints(step.x[2].data);
  p.begin = static_cast<uint32_t>(routes[p.matrix]);
  p.end = static_cast<uint32_t>(routes[p.matrix + 1]);
}

/// Returns the n-th matrix of experts that has tokens, u[2] if there are fewer. A warp looks at 128 experts at a time;
/// all lanes call it.
__device__ inline uint32_t used_matrix(const Params& step, uint32_t n) {
  constexpr uint32_t kMasks = 4, kLanes = 32;
  const int32_t* routes = ints(step.x[2].data);
  for (uint32_t first = 0; first < step.u[2]; first += kMasks * kLanes) {
    uint32_t masks[kMasks];
#pragma unroll
    for (uint32_t i = 0; i < kMasks; ++i) {
      const uint32_t matrix = first + i * kLanes + lane() % kLanes;
      masks[i] = ballot(matrix < step.u[2] && routes[matrix] < routes[matrix + 1]);
    }
#pragma unroll
    for (uint32_t i = 0; i < kMasks; ++i) {
      const uint32_t count = count_bits(masks[i]);
      if (n < count) {
        uint32_t mask = masks[i];
        for (; n > 0; --n) mask &= mask - 1;
        return first + i * kLanes + count_bits((mask & ~(mask - 1)) - 1);
      }
      n -= count;
    }
  }
  return step.u[2];
}

/// The number of rows of x, and the address of their scales behind their halves.
__device__ inline uint32_t n_rows_of_x(const Params& step) {
  return step.x[1].ne[1] * step.x[1].ne[2] * step.x[1].ne[3];
}
__device__ inline float* scales_of_x(const Params& step) {
  return floats(step.scratch + uint64_t{n_rows_of_x(step)} * step.u[10]);
}

/// The address of the weights as halves.
__device__ inline uint64_t halves_of_weights(const Params& step) {
  return step.scratch + (uint64_t{step.x[8].ne[1]} << 32 | step.x[8].ne[0]);
}

/// The row of x that token number `token` of a part multiplies.
__device__ inline uint32_t source_of(const Params& step, uint32_t token) {
  if (step.u[8] == 0) return token;
  return static_cast<uint32_t>(ints(step.x[2].data)[step.u[2] + 1 + token]) / step.u[8];
}
__device__ inline uint64_t x_row(const Params& step, const Part& p, uint32_t token) {
  return step.x[1].data + uint64_t{p.matrix} * step.u[6] + uint64_t{source_of(step, token)} * step.u[4];
}
__device__ inline float* y_row(const Params& step, const Part& p, uint32_t token) {
  return floats(step.y.data + uint64_t{p.matrix} * step.u[7] + uint64_t{token} * step.u[5]) + p.row;
}

/// The scale of a segment of activations: a power of two that brings the largest magnitude to 2^14.
struct SegmentScale {
  float scale, inverse;
};
__device__ inline SegmentScale scale_of(float highest) {
  const uint32_t exponent = max_of(bits_of(highest) >> 23, 15);
  return {float_of((268 - exponent) << 23), float_of((exponent - 14) << 23)};
}

/// Eight adjacent floats at a multiple of 16 bytes.
__device__ inline void x_piece_of_aligned(uint64_t from, float (&v)[8]) {
  const Word4 a = at<Word4>(from)[0], b = at<Word4>(from)[1];
  v[0] = float_of(a.x);
  v[1] = float_of(a.y);
  v[2] = float_of(a.z);
  v[3] = float_of(a.w);
  v[4] = float_of(b.x);
  v[5] = float_of(b.y);
  v[6] = float_of(b.z);
  v[7] = float_of(b.w);
}
/// Eight adjacent floats of a row of k, zeros after its end.
__device__ inline void x_piece(uint64_t row, uint32_t i, uint32_t k, float (&v)[8]) {
  if (i + kPiece <= k && (row & 15) == 0) return x_piece_of_aligned(row + uint64_t{i} * sizeof(float), v);
  for (uint32_t n = 0; n < kPiece; ++n) v[n] = i + n < k ? floats(row)[i + n] : 0.0f;
}

/// A warp converts a segment of activations, of which each lane has eight. kIsSplit: words have the pairs (0, 2), (1,
/// 3), (4, 6) and (5, 7) of them. Returns the inverse of the scale.
template <bool kIsSplit>
__device__ inline float halves_of_piece(const float (&v)[8], Word4& words) {
  constexpr uint32_t kSecond = kIsSplit ? 2 : 1, kThird = kIsSplit ? 1 : 2;
  float highest = 0;
  for (uint32_t n = 0; n < kPiece; ++n) highest = fmaxf(highest, fabsf(v[n]));
  const SegmentScale s = scale_of(max_over_warp(highest));
  words.x = pack_halves(v[0] * s.scale, v[kSecond] * s.scale);
  words.y = pack_halves(v[kThird] * s.scale, v[3] * s.scale);
  words.z = pack_halves(v[4] * s.scale, v[4 + kSecond] * s.scale);
  words.w = pack_halves(v[4 + kThird] * s.scale, v[7] * s.scale);
  return s.inverse;
}
/// The same for a segment of a row of x, in order: lane l has the columns 8 l to 8 l + 7.
__device__ inline float halves_of_x(uint64_t row, uint32_t segment, uint32_t k, Word4& words) {
  float v[8];
  x_piece(row, segment * kSegment + lane() % kWarp * kPiece, k, v);
  return halves_of_piece<false>(v, words);
}

}  // namespace tessera::cuda
