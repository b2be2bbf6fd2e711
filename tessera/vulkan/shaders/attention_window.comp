#version 460
#extension GL_GOOGLE_include_directive : require
// window_keys: the entries and tokens that each token sees, as bits. A workgroup computes a part of a token's words.
//   x: positions, blocks, chosen keys or absent
//   u[0]: words of a part; u[1]: window; u[2]: positions of an entry; u[3]: blocks of entries
#include "step.glsl"
#include "math.glsl"
#include "attention.glsl"

void main() {
  const uint n_words = 2u * step.y.ne[0], n_parts = (n_words + step.u[0] - 1u) / step.u[0], group = group_index();
  if (group >= step.n_groups) return;
  const uint token = group / n_parts, begin = group % n_parts * step.u[0], end = min(n_words, begin + step.u[0]);
  const int position = Ints(step.x[0].data).at[token];
  const uint n_entry_words = 2u * step.u[3], n_positions = (n_words - n_entry_words) * 32u;
  uint n_entries = 0u, first = 0u, after = 0u;
  if (position >= 0 && uint(position) < n_positions) {
    after = uint(position) + 1u;
    first = after > step.u[1] ? after - step.u[1] : 0u;
    n_entries = after / step.u[2];
  } else if (lane() == 0u) {
    report(kFaultPosition, position, n_positions);
  }
  Words y = Words(row_of(step.y, 0u, token, 0u)), chosen = Words(row_of(step.x[2], 0u, token, 0u));
  for (uint w = begin + lane(); w < end; w += n_lanes()) {
    if (w >= n_entry_words)
      y.at[w] = within(32u * (w - n_entry_words), first, after);
    else
      y.at[w] = within(32u * w, 0u, n_entries) & (step.x[2].data == 0ul ? ~0u : chosen.at[w]);
  }
}
