#version 460
#extension GL_GOOGLE_include_directive : require
// sum_squares: one invocation per column, which adds the rows in order.
#include "step.glsl"

void main() {
  const uint i = group_index() * n_lanes() + lane();
  if (i >= step.y.ne[0]) return;
  float sum = 0.0;
  const uint n_rows = step.x[0].ne[1] * step.x[0].ne[2] * step.x[0].ne[3];
  for (uint row = 0; row < n_rows; ++row) {
    const float v = Floats(nth_row(step.x[0], row)).at[i];
    sum = fma(v, v, sum);
  }
  Floats(step.y.data).at[i] = sum;
}
