#version 460
#extension GL_GOOGLE_include_directive : require
// cast to f16 or bf16 (kFormat): one invocation per word, which is two adjacent elements of the contiguous result. Rows
// of odd length share words, so elements are numbered across rows.
#include "step.glsl"
#include "formats.glsl"

uint encoded(uint i, uint n_elements) {
  if (i >= n_elements) return 0u;
  const float v = Floats(nth_row(step.x[0], i / step.y.ne[0])).at[i % step.y.ne[0]];
  return kFormat == kFormat_f16 ? half_of_float(v) : bf16_of_float(v);
}

void main() {
  const uint n = step.y.ne[0] * step.y.ne[1] * step.y.ne[2] * step.y.ne[3];
  const uint i = 2u * (group_index() * n_lanes() + lane());
  if (i < n) Words(step.y.data).at[i / 2u] = encoded(i, n) | encoded(i + 1u, n) << 16u;
}
