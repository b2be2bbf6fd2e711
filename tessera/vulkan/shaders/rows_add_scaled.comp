#version 460
#extension GL_GOOGLE_include_directive : require
// add_scaled: adds rows of d, multiplied by their token's scale, to rows of x[0]. A scale of 0 keeps the row unchanged,
// even if d is not finite.
//   u[0]: the factor as bits; u[1]: n_experts of the routes
#include "step.glsl"

void main() {
  const uint row = group_index();
  if (row >= step.n_groups) return;
  uint token = row;
  if (step.x[3].data != 0ul)
    token = uint(Ints(step.x[3].data).at[step.u[1] + 1u + row]) / max(step.y.ne[1] / max(step.x[2].ne[1], 1u), 1u);
  const float scale = Floats(row_of(step.x[2], token, 0u, 0u)).at[0];
  Floats from = Floats(row_of(step.x[0], row, 0u, 0u)), y = Floats(row_of(step.y, row, 0u, 0u));
  Floats d = Floats(row_of(step.x[1], step.x[1].ne[1] == 1u ? 0u : row, 0u, 0u));
  const float factor = scale * uintBitsToFloat(step.u[0]);
  for (uint i = lane(); i < step.y.ne[0]; i += n_lanes())
    y.at[i] = scale == 0.0 ? from.at[i] : from.at[i] + d.at[i] * factor;
}
