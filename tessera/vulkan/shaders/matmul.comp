#version 460
#extension GL_GOOGLE_include_directive : require
// Products with weights of any format, in the layout of the file, for few tokens. Eight invocations share a row
// (matmul.glsl). For long rows, the invocations of a workgroup sum several segments of a row at a time.
//   kVariant, from the lowest byte: tokens at a time, rows per invocation, segments at a time
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "matmul.glsl"

const uint kTokens = kVariant & 255u, kRows = kVariant >> 8u & 255u, kAtATime = kVariant >> 16u & 255u;
const uint kSlots = gl_WorkGroupSize.x / kLanes / kAtATime, kGroupRows = kSlots * kRows;
const uint kOutputs = kGroupRows * kTokens;
const uint kPerLane = (kOutputs + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;

shared float parts[kRows * kTokens * gl_WorkGroupSize.x];

uint64_t x[kTokens];          // addresses of the tokens' rows
float sums[kRows * kTokens];  // of this invocation
float totals[kPerLane];       // of the outputs lane(), lane() + n_lanes(), ...

/// Computes this invocation's share of a segment.
void multiply(uint64_t w, uint last_row, uint k, uint segment) {
  uint64_t rows[kRows];
  for (uint r = 0; r < kRows; ++r) rows[r] = w + uint64_t(min(r, last_row)) * step.x[0].nb[1];
  [[unroll]] for (uint s = 0; s < kRows * kTokens; ++s) sums[s] = 0.0;
  const uint end = min(k, (segment + 1u) * kSegment);
  for (uint i = segment * kSegment + kPiece * (lane() % kLanes); i < end; i += kChunk) {
    float v[kRows][8];
    [[unroll]] for (uint r = 0; r < kRows; ++r) weights_at(rows[r], i, k, v[r]);
    [[unroll]] for (uint t = 0; t < kTokens; ++t) {
      float a[8];
      x_at(x[t], i, k, a);
      [[unroll]] for (uint j = 0; j < 8; ++j)
        [[unroll]] for (uint r = 0; r < kRows; ++r) sums[r * kTokens + t] = fma(v[r][j], a[j], sums[r * kTokens + t]);
    }
  }
}

/// Adds the sums that the invocations stored in `parts` to the totals, segment after segment.
void add_segments(uint first, uint n) {
  for (uint p = 0; p < kPerLane; ++p) {
    const uint o = lane() + p * n_lanes();
    if (o >= kOutputs) break;
    for (uint s = 0; s < kAtATime && first + s < n; ++s) {
      const uint at = o / kSlots * n_lanes() + (o % kSlots * kAtATime + s) * kLanes;
      totals[p] += sum_of_lanes(parts[at], parts[at + 1u], parts[at + 2u], parts[at + 3u], parts[at + 4u],
                                parts[at + 5u], parts[at + 6u], parts[at + 7u]);
    }
  }
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const Part p = part_of_group(group, kGroupRows);
  const uint k = step.x[0].ne[0], n = n_segments(k);
  const uint my_segment = lane() / kLanes % kAtATime, my_row = min(lane() / kLanes / kAtATime * kRows, p.n_rows - 1u);
  const uint64_t w = p.w + uint64_t(my_row) * step.x[0].nb[1];
  for (uint first = p.begin + p.share * kTokens; first < p.end; first += step.u[1] * kTokens) {
    for (uint t = 0; t < kTokens; ++t) x[t] = x_row(p, min(first + t, p.end - 1u));
    for (uint i = 0; i < kPerLane; ++i) totals[i] = 0.0;
    for (uint segment = 0; segment < n; segment += kAtATime) {
      multiply(w, p.n_rows - 1u - my_row, k, segment + my_segment);
      sync_group();
      [[unroll]] for (uint s = 0; s < kRows * kTokens; ++s) parts[s * n_lanes() + lane()] = sums[s];
      sync_group();
      add_segments(segment, n);
    }
    for (uint i = 0; i < kPerLane; ++i) {
      const uint o = lane() + i * n_lanes(), s = o / kSlots;
      const uint r = o % kSlots * kRows + s / kTokens, token = first + s % kTokens;
      if (o < kOutputs && r < p.n_rows && token < p.end) store_product(p, r, token, totals[i]);
    }
  }
}
