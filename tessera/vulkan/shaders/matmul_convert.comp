#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// Converts x to f16 for matmul_cooperative.comp. A workgroup takes a segment of a row, and multiplies it by the power of
// two that keeps it in range.
//   u[9]: rows of x; scratch: pieces by row and column, zeros after the end of a row; then the inverse scales by row and
//   segment
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "matmul.glsl"
#define kPoolPieces 1
#define kEmulated  // no matrices here
#include "cooperative.glsl"

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const uint k = step.x[1].ne[0], n_segments = n_matrix_segments(k);
  const uint row = group / n_segments, segment = group % n_segments, begin = segment * kSegmentColumns;
  Floats x = Floats(nth_row(step.x[1], row));
  float highest = 0.0;
  for (uint i = lane(); i < kSegmentColumns; i += n_lanes())
    if (begin + i < k) highest = max(highest, abs(x.at[begin + i]));
  const uint exponent = exponent_of(max_over_group(highest));
  const float scale = scale_of(exponent);
  Words to = Words(step.scratch + uint64_t(group) * kSegmentPieces * 16ul);
  for (uint i = lane(); i < kSegmentColumns / 2u; i += n_lanes()) {
    const uint column = begin + 2u * i;
    to.at[i] = packFloat2x16(f16vec2(column < k ? x.at[column] * scale : 0.0,
                                     column + 1u < k ? x.at[column + 1u] * scale : 0.0));
  }
  if (lane() == 0u)
    Floats(step.scratch + uint64_t(step.u[9]) * n_segments * kSegmentPieces * 16ul).at[group] =
        inverse_scale_of(exponent);
}
