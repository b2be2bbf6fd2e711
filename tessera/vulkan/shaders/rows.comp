#version 460
#extension GL_GOOGLE_include_directive : require
// get_rows and cast: convert rows of any format to floats, one workgroup per row.
//   x[0]: the table (format kFormat); x[1]: ids, or absent for all rows in order
#include "step.glsl"
#include "formats.glsl"

const uint kFaultRow = 1;

void main() {
  const uint row = group_index();
  if (row >= step.n_groups) return;
  Floats y = Floats(nth_row(step.y, row));
  const uint n = step.y.ne[0];
  uint64_t from = nth_row(step.x[0], row);
  if (step.x[1].data != 0ul) {
    const int id = Ints(step.x[1].data).at[row];
    const uint n_rows = step.x[0].ne[1];
    if (id < 0 || uint(id) >= n_rows) {
      if (lane() == 0u) report(kFaultRow, id, n_rows);
      for (uint i = lane(); i < n; i += n_lanes()) y.at[i] = 0.0;
      return;
    }
    from = row_of(step.x[0], uint(id), 0u, 0u);
  }
  for (uint i = 8u * lane(); i < n; i += 8u * n_lanes()) {
    const uint count = min(8u, n - i);
    float v[8];
    decode8(kFormat, from, i, count, v);
    for (uint j = 0; j < count; ++j) y.at[i + j] = v[j];
  }
}
