#version 460
#extension GL_GOOGLE_include_directive : require
// Variant 0: temperature, an invocation per token. u[0]: the bits of beta; u[1]: positions of one step.
// Variant 1: sum_squares, an invocation per column; rows in order.
#include "step.glsl"
#include "math.glsl"

void main() {
  const uint i = group_index() * n_lanes() + lane();
  if (kVariant == 0u) {
    if (i >= step.x[0].ne[0]) return;
    const uint n_steps = uint(max(Ints(step.x[0].data).at[i], 0)) / step.u[1];
    Floats(row_of(step.y, 0u, i, 0u)).at[0] = 1.0 + uintBitsToFloat(step.u[0]) * log(float(n_steps) + 1.0);
    return;
  }
  if (i >= step.y.ne[0]) return;
  float sum = 0.0;
  const uint n_rows = step.x[0].ne[1] * step.x[0].ne[2] * step.x[0].ne[3];
  for (uint row = 0; row < n_rows; ++row) {
    const float v = Floats(nth_row(step.x[0], row)).at[i];
    sum = fma(v, v, sum);
  }
  Floats(step.y.data).at[i] = sum;
}
