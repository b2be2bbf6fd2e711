#version 460
#extension GL_GOOGLE_include_directive : require
// temperature: one invocation per token. u[0]: beta as bits; u[1]: positions per step; u[2]: offset of positions.
#include "step.glsl"
#include "math.glsl"

void main() {
  const uint i = group_index() * n_lanes() + lane();
  if (i >= step.x[0].ne[0]) return;
  const uint n_steps = (uint(max(Ints(step.x[0].data).at[i], 0)) + step.u[2]) / step.u[1];
  Floats(row_of(step.y, 0u, i, 0u)).at[0] = 1.0 + uintBitsToFloat(step.u[0]) * log(float(n_steps) + 1.0);
}
