#version 460
#extension GL_GOOGLE_include_directive : require
// Measures peak rates. Variant 0: each invocation computes 32 * u[0] multiply-adds. Variant 1: each invocation reads
// 16 * u[0] bytes of x[0], and adjacent invocations read adjacent words.
#include "step.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { uvec4 at[]; };

void main() {
  const uint invocation = group_index() * n_lanes() + lane(), n = step.n_groups * n_lanes();
  if (group_index() >= step.n_groups) return;
  if (kVariant == 0u) {
    vec4 sums[8];
    for (uint i = 0; i < 8; ++i) sums[i] = vec4(float(invocation + i));
    const vec4 factor = vec4(0.999), term = vec4(float(lane()));
    for (uint loop = 0; loop < step.u[0]; ++loop)
      [[unroll]] for (uint i = 0; i < 8; ++i) sums[i] = fma(sums[i], factor, term);
    vec4 sum = vec4(0.0);
    for (uint i = 0; i < 8; ++i) sum += sums[i];
    Floats(step.y.data).at[invocation] = sum.x + sum.y + sum.z + sum.w;
    return;
  }
  uvec4 bits = uvec4(0u);
  for (uint i = 0; i < step.u[0]; ++i) bits ^= Quads(step.x[0].data).at[i * n + invocation];
  Words(step.y.data).at[invocation] = bits.x ^ bits.y ^ bits.z ^ bits.w;
}
