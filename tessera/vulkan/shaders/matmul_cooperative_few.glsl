// Products for up to 16 tokens on cooperative matrices (cooperative.glsl), with the same sums as
// matmul_cooperative.glsl. A workgroup of eight subgroups computes 16 rows. The subgroups sum a segment each, and then
// the next eight.
//   kVariant, from the lowest byte: invocations of a subgroup, tokens at a time
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "matmul.glsl"

const uint kTokens = kVariant >> 8u & 255u;
// Columns in shared memory at a time. The second is for more tokens, for which there is less room.
const uint kColumns = kTokens <= 2u ? 64u : 32u, kPieces = kColumns / kPiece, kLine = kColumns / 4u + 2u;
// Matrices of x have 16 columns, of which only kTokens are written and used: what follows in memory is read for others.
#define kPoolWords ((8u * (16u + kTokens) + 16u) * kLine)
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
#define store_sums(at, s) write_sums(segment_sums[at], s, kRowMajor, kSide, kNonPrivate)
#endif

/// Computes the sums of a segment, which this subgroup leaves in shared memory.
void multiply_segment(Part p, uint k, uint segment) {
  const uint me = gl_SubgroupInvocationID, begin = segment * kSegmentColumns;
  const uint weights = gl_SubgroupID * kSide * kLine, values = (kSubgroups * kSide + gl_SubgroupID * kTokens) * kLine;
  const uint end = min(k, begin + kSegmentColumns);
  float scales[kTokens];
  UNROLL for (uint t = 0; t < kTokens; ++t) {
    float highest = 0.0;
    for (uint piece = me; piece < kSegmentPieces; piece += kSubgroupLanes) {
      float v[8];
      if (begin + piece * kPiece >= end) break;
      x_at(x[t], begin + piece * kPiece, k, v);
      for (uint j = 0; j < 8u; ++j) highest = max(highest, abs(v[j]));
    }
    const uint exponent = exponent_of(subgroupMax(highest));
    scales[t] = scale_of(exponent);
    if (me == 0u) segment_scales[gl_SubgroupID * kSide + t] = inverse_scale_of(exponent);
  }
  Sums sum = zeros();
  for (uint first = begin; first < end; first += kColumns) {
    subgroupBarrier();
    for (uint i = me; i < kSide * kPieces; i += kSubgroupLanes) {
      const uint line = i / kPieces, column = first + i % kPieces * kPiece;
      float w[8];
      for (uint j = 0; j < 8u; ++j) w[j] = 0.0;
      if (column < end) weights_at(p.w + uint64_t(min(line, p.n_rows - 1u)) * step.x[0].nb[1], column, k, w);
      store_piece(weights + line * kLine + i % kPieces * 2u, w);
    }
    UNROLL for (uint t = 0; t < kTokens; ++t)
      for (uint i = me; i < kPieces; i += kSubgroupLanes) {
        const uint column = first + i * kPiece;
        float v[8];
        for (uint j = 0; j < 8u; ++j) v[j] = 0.0;
        if (column < end) x_at(x[t], column, k, v);
        for (uint j = 0; j < 8u; ++j) v[j] *= scales[t];
        store_piece(values + t * kLine + i * 2u, v);
      }
    subgroupBarrier();
    UNROLL for (uint i = 0; i < kColumns / 4u; i += kSide / 4u)
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
    for (uint t = 0; t < kTokens; ++t) x[t] = x_row(p, min(first + t, p.end - 1u));
    for (uint i = 0; i < kPerLane; ++i) totals[i] = 0.0;
    for (uint round = 0; round < n_segments; round += kSubgroups) {
      if (round + gl_SubgroupID < n_segments) multiply_segment(p, k, round + gl_SubgroupID);
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
