#version 460
#extension GL_GOOGLE_include_directive : require
// Variant 0: rope, one workgroup per row of x. u[0]: 1 if pairs consist of elements of both halves; u[1]: 1 to negate
// the angles.
// Variant 1: rope_table, one workgroup per token. extra: for each pair the angle per position in units of 2^-64 turns
// (two words, lowest first), so that position * angle wraps exactly; u[0]: the magnitude as bits.
#include "step.glsl"
#include "math.glsl"

void make_table(uint token) {
  Floats y = Floats(row_of(step.y, token, 0u, 0u));
  Words angles = Words(step.extra);
  const int64_t position = int64_t(Ints(step.x[0].data).at[token]);
  const float magnitude = uintBitsToFloat(step.u[0]);
  for (uint i = lane(); i < step.y.ne[0] / 2u; i += n_lanes()) {
    const uint64_t angle = uint64_t(angles.at[2u * i]) | uint64_t(angles.at[2u * i + 1u]) << 32u;
    const vec2 pair = cos_sin_of(uint(angle * uint64_t(position) >> 32u)) * magnitude;
    y.at[2u * i] = pair.x;
    y.at[2u * i + 1u] = pair.y;
  }
}

void rotate(uint row) {
  Floats x = Floats(nth_row(step.x[0], row)), y = Floats(nth_row(step.y, row));
  Floats table = Floats(row_of(step.x[1], row / step.y.ne[1], 0u, 0u));
  const uint n_rot = step.x[1].ne[0];
  const bool is_halves = step.u[0] != 0u;
  for (uint i = lane(); i < n_rot / 2u; i += n_lanes()) {
    const uint first = is_halves ? i : 2u * i, second = is_halves ? i + n_rot / 2u : 2u * i + 1u;
    const float a = x.at[first], b = x.at[second], c = table.at[2u * i];
    const float s = step.u[1] != 0u ? -table.at[2u * i + 1u] : table.at[2u * i + 1u];
    y.at[first] = a * c - b * s;
    y.at[second] = a * s + b * c;
  }
  for (uint i = n_rot + lane(); i < step.y.ne[0]; i += n_lanes()) y.at[i] = x.at[i];
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  if (kVariant == 1u)
    make_table(group);
  else
    rotate(group);
}
