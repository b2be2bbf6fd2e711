// Rows of a table, conversion of types, and the sum of rows with scales.
#include "tessera/cuda/kernels/encode.cuh"

namespace tessera::cuda {

/// get_rows and cast to f32: convert rows of any format to floats, one block per row.
///   x[0]: the table (of step.format); x[1]: ids, or absent for all rows in order
TESSERA_KERNEL(rows, 128) {
  const uint32_t row = group_of(step), n = step.y.ne[0];
  const RowIndex index = row_index(step.y, row);
  float* y = floats(row_at(step.y, index));
  uint64_t from = nth_row(step.x[0], row);
  allow_next();
  wait_for_previous();
  if (row >= step.n_groups) return;
  if (step.x[1].data != 0) {
    const int32_t id = ints(step.x[1].data)[row];
    const uint32_t n_rows = step.x[0].ne[1];
    if (id < 0 || static_cast<uint32_t>(id) >= n_rows) {
      if (lane() == 0) report(step, kFaultRow, id, n_rows);
      for (uint32_t i = lane(); i < n; i += n_lanes()) y[i] = 0.0f;
      return;
    }
    from = row_of(step.x[0], static_cast<uint32_t>(id), 0, 0);
  }
  const bool has_wide = is_wide(reinterpret_cast<uint64_t>(y));
  for (uint32_t i = 8 * lane(); i < n; i += 8 * n_lanes()) {
    const uint32_t count = min_of(8, n - i);
    float v[8];
    decode8_of(step.format, step.tables, from, i, count, v);
    if (has_wide && count == 8) {
      const auto to = reinterpret_cast<uint64_t>(y + i);
      *at<Float4>(to) = {v[0], v[1], v[2], v[3]};
      *at<Float4>(to + kWideBytes) = {v[4], v[5], v[6], v[7]};
      continue;
    }
    for (uint32_t j = 0; j < 8; ++j)  // a constant bound keeps v in registers
      if (j < count) y[i + j] = v[j];
  }
}

/// add_scaled: adds rows of d, multiplied by their token's scale, to rows of x[0]. A scale of 0 keeps the row
/// unchanged, even if d is not finite.
///   u[0]: the factor as bits; u[1]: n_experts of the routes
TESSERA_KERNEL(rows_add_scaled, 128) {
  allow_next();
  wait_for_previous();
  const uint32_t row = group_of(step);
  if (row >= step.n_groups) return;
  uint32_t token = row;
  if (step.x[3].data != 0) {
    const uint32_t pair = words(step.x[3].data)[step.u[1] + 1 + row];
    token = pair / max_of(step.y.ne[1] / max_of(step.x[2].ne[1], 1), 1);
  }
  const float scale = floats(row_of(step.x[2], token, 0, 0))[0];
  const float* from = floats(row_of(step.x[0], row, 0, 0));
  const float* d = floats(row_of(step.x[1], step.x[1].ne[1] == 1 ? 0 : row, 0, 0));
  float* y = floats(row_of(step.y, row, 0, 0));
  const float factor = scale * float_of(step.u[0]);
  const auto sum = [&](float v, float by) { return scale == 0.0f ? v : v + by * factor; };
  const auto from_at = reinterpret_cast<uint64_t>(from), d_at = reinterpret_cast<uint64_t>(d);
  const auto to = reinterpret_cast<uint64_t>(y);
  if (is_wide(from_at | d_at | to) && step.y.ne[0] % 4 == 0) {
    for (uint32_t i = 4 * lane(); i < step.y.ne[0]; i += 4 * n_lanes()) {
      const uint64_t offset = 4 * uint64_t{i};
      const Float4 a = float4_at(from_at + offset), b = float4_at(d_at + offset);
      *at<Float4>(to + offset) = {sum(a.v[0], b.v[0]), sum(a.v[1], b.v[1]), sum(a.v[2], b.v[2]), sum(a.v[3], b.v[3])};
    }
    return;
  }
  for (uint32_t i = lane(); i < step.y.ne[0]; i += n_lanes()) y[i] = sum(from[i], d[i]);
}

namespace {

/// Element i of x[0] in the format of the result; 0 past the end.
__device__ inline uint32_t narrowed_element(const Params& step, uint32_t i, uint32_t n_elements) {
  if (i >= n_elements) return 0;
  return narrow_of_float(step.format, floats(nth_row(step.x[0], i / step.y.ne[0]))[i % step.y.ne[0]]);
}

}  // namespace

/// cast to f16 or bf16 (step.format): one thread per word, which is two adjacent elements of the contiguous result.
/// Rows of odd length share words, so elements are numbered across rows.
TESSERA_KERNEL(rows_narrow, 128) {
  allow_next();
  wait_for_previous();
  const uint32_t n = step.y.ne[0] * step.y.ne[1] * step.y.ne[2] * step.y.ne[3];
  const uint32_t word = group_of(step) * n_lanes() + lane(), i = 2 * word;
  if (i < n) words(step.y.data)[word] = narrowed_element(step, i, n) | narrowed_element(step, i + 1, n) << 16;
}

}  // namespace tessera::cuda
