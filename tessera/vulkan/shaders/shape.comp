#version 460
#extension GL_GOOGLE_include_directive : require
// concat: each row of x[0] followed by the row of x[1].
#include "step.glsl"

void main() {
  const uint row = group_index();
  if (row >= step.n_groups) return;
  Words y = Words(nth_row(step.y, row)), a = Words(nth_row(step.x[0], row)), b = Words(nth_row(step.x[1], row));
  const uint n = step.x[0].ne[0];
  for (uint i = lane(); i < step.y.ne[0]; i += n_lanes()) y.at[i] = i < n ? a.at[i] : b.at[i - n];
}
