// Products for up to 16 tokens on cooperative matrices (cooperative.glsl), with the same sums as
// matmul_cooperative.glsl. A workgroup of eight subgroups computes 16 rows. The subgroups sum a segment each, and then
// the next eight.
//   kVariant, from the lowest byte: invocations of a subgroup, tokens at a time; bit 17: rows end with a segment
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "matmul.glsl"

const uint kTokens = kVariant >> 8u & 255u;
// Columns in shared memory at a time. The second is for more tokens, for which there is less room.
const uint kColumns = kTokens <= 2u ? 64u : 32u, kPieces = kColumns / kPiece, kLine = kPieces + 1u;
// Matrices of x have 16 columns, of which only kTokens are written and used: what follows in memory is read for others.
#define kPoolPieces ((8u * (16u + kTokens) + 16u) * kLine)
#include "cooperative.glsl"

const uint kValues = kSide * kSide;
const uint kPerLane = 8;  // most outputs of an invocation

shared float segment_sums[kSubgroups * kValues];  // by subgroup, row and token
shared float segment_scales[kSubgroups * kSide];  // by subgroup and token

uint64_t x[kTokens];
float totals[kPerLane];  // of the outputs lane(), lane() + n_lanes(), ...

#ifdef kEmulated
void store_sums(uint at, Sums s) {
  UNROLL for (uint i = 0; i < n_mine(); ++i) segment_sums[at + my_value(i)] = s.at[i];
}
#else
void store_sums(uint at, Sums s) { coopMatStoreNV(s, segment_sums, at, kSide, false); }
#endif

// The pieces that an invocation loads: piece me % kPieces of weights of lines me / kPieces + i * kLineStep, of each chunk
// of columns, and pieces me + i * kSubgroupLanes of x, of the segment.
const uint kLineStep = kSubgroupLanes / kPieces, kMyWeights = kSide / kLineStep;
const uint kChunks = kSegmentColumns / kColumns;
const uint kMyX = kSubgroupLanes < kSegmentPieces ? kSegmentPieces / kSubgroupLanes : 1u;
uint64_t weight_rows[kMyWeights];
uvec4 my_weights[kChunks * kMyWeights], my_x[kTokens * kMyX];

/// Reads this subgroup's segment of x, with the scale of each token.
void load_x(uint begin, uint end, uint k) {
  const uint me = gl_SubgroupInvocationID;
  UNROLL for (uint t = 0; t < kTokens; ++t) {
    float v[kMyX][8], highest = 0.0;
    UNROLL for (uint i = 0; i < kMyX; ++i) {
      const uint column = begin + (me + i * kSubgroupLanes) * kPiece;
      for (uint j = 0; j < 8u; ++j) v[i][j] = 0.0;
      if (kSubgroupLanes <= kSegmentPieces && kWholeSegments || column < end) x_at(x[t], column, k, v[i]);
      for (uint j = 0; j < 8u; ++j) highest = max(highest, abs(v[i][j]));
    }
    const uint exponent = exponent_of(subgroupMax(highest));
    if (me == 0u) segment_scales[gl_SubgroupID * kSide + t] = inverse_scale_of(exponent);
    UNROLL for (uint i = 0; i < kMyX; ++i) {
      for (uint j = 0; j < 8u; ++j) v[i][j] *= scale_of(exponent);
      my_x[t * kMyX + i] = halves_of(v[i]);
    }
  }
}

// All at once, so that many reads are under way.
void load_weights(uint begin, uint end) {
  const uint column = begin + gl_SubgroupInvocationID % kPieces * kPiece;
  UNROLL for (uint c = 0; c < kChunks; ++c)
    UNROLL for (uint i = 0; i < kMyWeights; ++i)
      my_weights[c * kMyWeights + i] = weights_as_halves(weight_rows[i], column + c * kColumns, end);
}

/// Computes the sums of a segment, which this subgroup leaves in shared memory.
void multiply_segment(uint k, uint segment) {
  const uint me = gl_SubgroupInvocationID, begin = segment * kSegmentColumns;
  const uint weights = gl_SubgroupID * kSide * kLine, values = (kSubgroups * kSide + gl_SubgroupID * kTokens) * kLine;
  const uint end = min(k, begin + kSegmentColumns);
  load_weights(begin, end);
  load_x(begin, end, k);
  Sums sum = zeros();
  UNROLL for (uint chunk = 0; chunk < kChunks; ++chunk) {
    if (!kWholeSegments && begin + chunk * kColumns >= end) break;
    subgroupBarrier();
    UNROLL for (uint i = 0; i < kMyWeights; ++i)
      pool[weights + (me / kPieces + i * kLineStep) * kLine + me % kPieces] =
          my_weights[chunk * kMyWeights + i];
    UNROLL for (uint i = 0; i < kMyX; ++i) {
      const uint piece = me + i * kSubgroupLanes;
      if (piece / kPieces != chunk) continue;
      UNROLL for (uint t = 0; t < kTokens; ++t)
        pool[values + t * kLine + piece % kPieces] = my_x[t * kMyX + i];
    }
    subgroupBarrier();
    UNROLL for (uint i = 0; i < kPieces; i += kSide / kPiece)
      sum = multiply_add(load_a(weights + i, kLine), load_b(values + i, kLine), sum);
  }
  store_sums(gl_SubgroupID * kValues, sum);
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const Part p = part_of_group(group, kSide);
  const uint k = step.x[0].ne[0], n_segments = n_matrix_segments(k), n_outputs = kSide * kTokens;
  for (uint first = p.begin + p.share * kTokens; first < p.end; first += step.u[1] * kTokens) {
    for (uint i = 0; i < kMyWeights; ++i)
      weight_rows[i] =
          p.w + uint64_t(min(gl_SubgroupInvocationID / kPieces + i * kLineStep, p.n_rows - 1u)) * step.x[0].nb[1];
    for (uint t = 0; t < kTokens; ++t) x[t] = x_row(p, min(first + t, p.end - 1u));
    for (uint i = 0; i < kPerLane; ++i) totals[i] = 0.0;
    for (uint round = 0; round < n_segments; round += kSubgroups) {
      if (round + gl_SubgroupID < n_segments) multiply_segment(k, round + gl_SubgroupID);
      barrier();
      for (uint i = 0; i < kPerLane && lane() + i * n_lanes() < n_outputs; ++i) {
        const uint o = lane() + i * n_lanes(), row = o / kTokens, token = o % kTokens;
        for (uint s = 0; s < kSubgroups && round + s < n_segments; ++s)
          totals[i] += segment_sums[s * kValues + row * kSide + token] * segment_scales[s * kSide + token];
      }
      barrier();
    }
    for (uint i = 0; i < kPerLane && lane() + i * n_lanes() < n_outputs; ++i) {
      const uint o = lane() + i * n_lanes(), row = o / kTokens, token = first + o % kTokens;
      if (row < p.n_rows && token < p.end) store_product(p, row, token, totals[i]);
    }
  }
}
