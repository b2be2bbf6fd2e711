#version 460
#extension GL_GOOGLE_include_directive : require
// The second pass of attention over splits. A workgroup merges the partial results of a token's query head, which
// attention.comp (variant 1) wrote to the scratch memory, in the order of the splits. The operands are the same.
#include "step.glsl"
#include "math.glsl"
#include "attention.glsl"

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const uint n_heads = step.x[0].ne[1], head = group % n_heads, token = group / n_heads, n_splits = step.u[6];
  const uint v_dim = step.y.ne[0];
  const uint64_t part_bytes = uint64_t(4u * (v_dim + 2u));
  const uint64_t parts = step.scratch + uint64_t(group) * n_splits * part_bytes;
  Floats y = Floats(row_of(step.y, head, token, 0u));
  // Each invocation merges the maxima and sums again. They are few, and this needs no barrier.
  for (uint i = lane(); i < v_dim; i += n_lanes()) {
    float highest = -kInfinity, sum = 0.0, total = 0.0;
    for (uint split = 0; split < n_splits; ++split) {
      Floats part = Floats(parts + uint64_t(split) * part_bytes);
      if (is_empty(part.at[0], part.at[1])) continue;
      const Merge m = merged(highest, sum, part.at[0], part.at[1]);
      total = merged_value(m, total, part.at[2u + i]);
      highest = m.highest;
      sum = m.sum;
    }
    const float factor = final_factor(highest, sum, head);
    y.at[i] = factor == 0.0 ? 0.0 : total * factor;
  }
}
