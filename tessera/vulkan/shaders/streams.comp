#version 460
#extension GL_GOOGLE_include_directive : require
// Sums of residual streams, in the order of streams. A workgroup computes a piece of a token.
//   kVariant: bit 0: update_streams, else join_streams; from bit 1 on: streams
//   x: streams, the block's output (update), weights (graph/ops/streams.h has their order)
//   u[0]: elements of a piece
#include "step.glsl"

const bool kUpdates = (kVariant & 1u) != 0u;
const uint kStreams = kVariant >> 1u, kMaxStreams = 16;

void main() {
  const uint n = step.y.ne[0], per_token = (n + step.u[0] - 1u) / step.u[0], group = group_index();
  if (group >= step.n_groups) return;
  const uint token = group / per_token, begin = group % per_token * step.u[0], end = min(n, begin + step.u[0]);
  Floats weights = Floats(row_of(step.x[kUpdates ? 2 : 1], token, 0u, 0u));
  for (uint i = begin + lane(); i < end; i += n_lanes()) {
    float x[kMaxStreams];
    for (uint old = 0; old < kStreams; ++old) x[old] = Floats(row_of(step.x[0], old, token, 0u)).at[i];
    if (!kUpdates) {
      float sum = weights.at[0] * x[0];
      for (uint old = 1; old < kStreams; ++old) sum = fma(weights.at[old], x[old], sum);
      Floats(row_of(step.y, token, 0u, 0u)).at[i] = sum;
      continue;
    }
    const float of_block = Floats(row_of(step.x[1], token, 0u, 0u)).at[i];
    for (uint s = 0; s < kStreams; ++s) {
      float sum = weights.at[kStreams + s] * of_block;
      for (uint old = 0; old < kStreams; ++old)
        sum = fma(weights.at[2u * kStreams + s + kStreams * old], x[old], sum);
      Floats(row_of(step.y, s, token, 0u)).at[i] = sum;
    }
  }
}
