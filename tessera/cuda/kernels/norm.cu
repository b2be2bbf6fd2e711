// Operations on whole rows, one block per row. Each thread sums its elements in the order of the row.
//   u[0]: eps as bits
// Also sum_squares, one thread per column.
#include "tessera/cuda/kernels/math.cuh"

namespace tessera::cuda {

namespace {

// Variants: NormOp in gpu/ops/norm.cpp.
enum : uint32_t { kRmsNorm, kLayerNorm, kL2Norm, kSoftMax };  // and row_sum

struct Row {
  const float* x;
  float* y;
  uint32_t n;
};

__device__ inline float sum_of_squares(const Row& row, float origin, float* room) {
  float squares = 0;
  for (uint32_t i = lane(); i < row.n; i += n_lanes()) {
    const float difference = row.x[i] - origin;
    squares = fmaf(difference, difference, squares);
  }
  return sum_over_group(squares, room);
}

__device__ inline float sum_of(const Row& row, float* room) {
  float sum = 0;
  for (uint32_t i = lane(); i < row.n; i += n_lanes()) sum += row.x[i];
  return sum_over_group(sum, room);
}

__device__ inline void rms_norm(const Params& step, const Row& row, float* room) {
  const float mean = sum_of_squares(row, 0.0f, room) / static_cast<float>(row.n);
  const float factor = 1.0f / sqrtf(mean + float_of(step.u[0]));
  if (step.x[1].data == 0) {
    for (uint32_t i = lane(); i < row.n; i += n_lanes()) row.y[i] = row.x[i] * factor;
    return;
  }
  const float* weight = floats(step.x[1].data);
  for (uint32_t i = lane(); i < row.n; i += n_lanes()) row.y[i] = row.x[i] * factor * weight[i];
}

__device__ inline void layer_norm(const Params& step, const Row& row, float* room) {
  const float n = static_cast<float>(row.n), mean = sum_of(row, room) / n;
  const float factor = 1.0f / sqrtf(sum_of_squares(row, mean, room) / n + float_of(step.u[0]));
  const bool has_weight = step.x[1].data != 0, has_bias = step.x[2].data != 0;
  const float *weight = floats(step.x[1].data), *bias = floats(step.x[2].data);
  for (uint32_t i = lane(); i < row.n; i += n_lanes()) {
    float v = (row.x[i] - mean) * factor;
    if (has_weight) v *= weight[i];
    if (has_bias) v += bias[i];
    row.y[i] = v;
  }
}

__device__ inline void l2_norm(const Params& step, const Row& row, float* room) {
  const float norm = sqrtf(sum_of_squares(row, 0.0f, room)), eps = float_of(step.u[0]);
  const float factor = 1.0f / (norm < eps ? eps : norm);
  for (uint32_t i = lane(); i < row.n; i += n_lanes()) row.y[i] = row.x[i] * factor;
}

/// fmaxf skips NaNs. They reach the results through the sum.
__device__ inline void soft_max(const Row& row, float* room) {
  float highest = -infinity();
  for (uint32_t i = lane(); i < row.n; i += n_lanes()) highest = fmaxf(highest, row.x[i]);
  highest = max_over_group(highest, room);
  if (highest == -infinity()) {  // all elements are masked
    for (uint32_t i = lane(); i < row.n; i += n_lanes()) row.y[i] = is_nan(row.x[i]) ? row.x[i] : 0.0f;
    return;
  }
  float sum = 0;
  for (uint32_t i = lane(); i < row.n; i += n_lanes()) {
    const float v = expf(row.x[i] - highest);
    row.y[i] = v;
    sum += v;
  }
  sum = sum_over_group(sum, room);
  for (uint32_t i = lane(); i < row.n; i += n_lanes()) row.y[i] = row.y[i] / sum;
}

__device__ inline void row_sum(const Row& row, float* room) {
  const float sum = sum_of(row, room);
  if (lane() == 0) row.y[0] = sum;
}

}  // namespace

TESSERA_KERNEL(norm, 256) {
  __shared__ float room[32];
  wait_for_previous();
  allow_next();
  if (group_of(step) >= step.n_groups) return;
  const Row row = {floats(nth_row(step.x[0], group_of(step))), floats(nth_row(step.y, group_of(step))), step.x[0].ne[0]};
  switch (step.variant) {
    case kRmsNorm:
      return rms_norm(step, row, room);
    case kLayerNorm:
      return layer_norm(step, row, room);
    case kL2Norm:
      return l2_norm(step, row, room);
    case kSoftMax:
      return soft_max(row, room);
    default:
      return row_sum(row, room);
  }
}

/// One thread per column, which adds the rows in order.
TESSERA_KERNEL(norm_sum_squares, 128) {
  wait_for_previous();
  allow_next();
  const uint32_t i = group_of(step) * n_lanes() + lane();
  if (i >= step.y.ne[0]) return;
  float sum = 0;
  const uint32_t n_rows = step.x[0].ne[1] * step.x[0].ne[2] * step.x[0].ne[3];
  for (uint32_t row = 0; row < n_rows; ++row) {
    const float v = floats(nth_row(step.x[0], row))[i];
    sum = fmaf(v, v, sum);
  }
  floats(step.y.data)[i] = sum;
}

}  // namespace tessera::cuda
