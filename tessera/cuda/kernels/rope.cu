// rope, its table, and the temperature of attention by position.
#include "tessera/cuda/kernels/math.cuh"

namespace tessera::cuda {

namespace {

/// One block per token. extra: for each pair the angle per position in units of 2^-64 turns (two words, lowest first),
/// so that position * angle wraps exactly; u[0]: the magnitude as bits.
__device__ inline void make_table(const Params& step, uint32_t token) {
  float* y = floats(row_of(step.y, token, 0, 0));
  const uint32_t* angles = words(step.extra);
  const uint64_t position = static_cast<uint64_t>(int64_t{ints(step.x[0].data)[token]});
  const float magnitude = float_of(step.u[0]);
  for (uint32_t i = lane(); i < step.y.ne[0] / 2; i += n_lanes()) {
    const uint64_t angle = angles[2 * i] | uint64_t{angles[2 * i + 1]} << 32;
    const CosSin pair = cos_sin_of(static_cast<uint32_t>(angle * position >> 32));
    y[2 * i] = pair.cos * magnitude;
    y[2 * i + 1] = pair.sin * magnitude;
  }
}

/// One block per row of x. u[0]: 1 if pairs consist of elements of both halves; u[1]: 1 to negate the angles.
__device__ inline void rotate(const Params& step, uint32_t row) {
  const float *x = floats(nth_row(step.x[0], row)), *table = floats(row_of(step.x[1], row / step.y.ne[1], 0, 0));
  float* y = floats(nth_row(step.y, row));
  const uint32_t n_rot = step.x[1].ne[0];
  const bool is_halves = step.u[0] != 0;
  for (uint32_t i = lane(); i < n_rot / 2; i += n_lanes()) {
    const uint32_t first = is_halves ? i : 2 * i, second = is_halves ? i + n_rot / 2 : 2 * i + 1;
    const float a = x[first], b = x[second], c = table[2 * i];
    const float s = step.u[1] != 0 ? -table[2 * i + 1] : table[2 * i + 1];
    y[first] = a * c - b * s;
    y[second] = a * s + b * c;
  }
  for (uint32_t i = n_rot + lane(); i < step.y.ne[0]; i += n_lanes()) y[i] = x[i];
}

}  // namespace

/// Variant 0: rope; variant 1: rope_table.
TESSERA_BATCH_KERNEL(rope, 128) {
  wait_for_previous();
  allow_next();
  if (group_of(step) >= step.n_groups) return;
  if (step.variant == 1)
    make_table(step, group_of(step));
  else
    rotate(step, group_of(step));
}

/// One thread per token. u[0]: beta as bits; u[1]: positions per step.
TESSERA_KERNEL(rope_temperature, 128) {
  wait_for_previous();
  allow_next();
  const uint32_t i = group_of(step) * n_lanes() + lane();
  if (i >= step.x[0].ne[0]) return;
  const int32_t position = ints(step.x[0].data)[i];
  const uint32_t n_steps = static_cast<uint32_t>(position < 0 ? 0 : position) / step.u[1];
  floats(row_of(step.y, 0, i, 0))[0] = 1.0f + float_of(step.u[0]) * logf(static_cast<float>(n_steps) + 1.0f);
}

}  // namespace tessera::cuda
