// rope, its table, stores in the cache beside it, and the temperature of attention by position.
#include "tessera/cuda/kernels/kv.cuh"

namespace tessera::cuda {

namespace {

/// One row per token. extra: for each pair the angle per position in units of 2^-64 turns (two words, lowest first),
/// so that position * angle wraps exactly; u[0]: the magnitude as bits.
__device__ inline void make_table(const Params& step, uint32_t token) {
  float* y = floats(row_of(step.y, token, 0, 0));
  const uint32_t* angles = words(step.extra);
  const uint64_t position = static_cast<uint64_t>(int64_t{ints(step.x[0].data)[token]});
  const float magnitude = float_of(step.u[0]);
  for (uint32_t i = row_lane(); i < step.y.ne[0] / 2; i += kRowLanes) {
    const uint64_t angle = angles[2 * i] | uint64_t{angles[2 * i + 1]} << 32;
    const CosSin pair = cos_sin_of(static_cast<uint32_t>(angle * position >> 32));
    y[2 * i] = pair.cos * magnitude;
    y[2 * i + 1] = pair.sin * magnitude;
  }
}

/// A row of x, its result, and the row of the table: cosine and sine of each pair.
struct Rotation {
  uint64_t x, y, table;
  uint32_t n, n_rot;  // elements of the row and those that are rotated
  bool is_halves;     // pairs consist of elements of both halves
  bool is_inverse;    // the angles are negated
};

__device__ inline void rotate_pair(float& a, float& b, float c, float s) {
  const float turned = a * c - b * s;
  b = a * s + b * c;
  a = turned;
}

/// Four pairs at a time. All rows are aligned and have whole pieces.
__device__ inline void rotate_wide(const Rotation& r) {
  for (uint32_t i = 4 * row_lane(); i < r.n_rot / 2; i += 4 * kRowLanes) {
    const uint64_t first = 4 * uint64_t{r.is_halves ? i : 2 * i};
    const uint64_t second = first + (r.is_halves ? 2 * uint64_t{r.n_rot} : kWideBytes);
    Float4 a = float4_at(r.x + first), b = float4_at(r.x + second);
    Float4 t = float4_at(r.table + 8 * uint64_t{i}), u = float4_at(r.table + 8 * uint64_t{i} + kWideBytes);
    if (r.is_inverse) {
      t = {t.v[0], -t.v[1], t.v[2], -t.v[3]};
      u = {u.v[0], -u.v[1], u.v[2], -u.v[3]};
    }
    if (r.is_halves) {
      rotate_pair(a.v[0], b.v[0], t.v[0], t.v[1]);
      rotate_pair(a.v[1], b.v[1], t.v[2], t.v[3]);
      rotate_pair(a.v[2], b.v[2], u.v[0], u.v[1]);
      rotate_pair(a.v[3], b.v[3], u.v[2], u.v[3]);
    } else {
      rotate_pair(a.v[0], a.v[1], t.v[0], t.v[1]);
      rotate_pair(a.v[2], a.v[3], t.v[2], t.v[3]);
      rotate_pair(b.v[0], b.v[1], u.v[0], u.v[1]);
      rotate_pair(b.v[2], b.v[3], u.v[2], u.v[3]);
    }
    *at<Float4>(r.y + first) = a;
    *at<Float4>(r.y + second) = b;
  }
  for (uint32_t i = r.n_rot + 4 * row_lane(); i < r.n; i += 4 * kRowLanes)
    *at<Float4>(r.y + 4 * uint64_t{i}) = float4_at(r.x + 4 * uint64_t{i});
}

__device__ inline void rotate(const Rotation& r) {
  const float *x = floats(r.x), *table = floats(r.table);
  float* y = floats(r.y);
  for (uint32_t i = row_lane(); i < r.n_rot / 2; i += kRowLanes) {
    const uint32_t first = r.is_halves ? i : 2 * i, second = r.is_halves ? i + r.n_rot / 2 : 2 * i + 1;
    float a = x[first], b = x[second];
    rotate_pair(a, b, table[2 * i], r.is_inverse ? -table[2 * i + 1] : table[2 * i + 1]);
    y[first] = a;
    y[second] = b;
  }
  for (uint32_t i = r.n_rot + row_lane(); i < r.n; i += kRowLanes) y[i] = x[i];
}

}  // namespace

/// Several rows per block. Variant 0: rope; u[0]: 1 if pairs consist of elements of both halves; u[1]: 1 to negate the
/// angles. Variant 1: rope_table. Variant 2: rope, whose results are also stored in a cache, by the threads that have
/// computed them; x[2]: the cache; x[3]: the cells of tokens; u[2]: bytes of a cache row. Variant 3: stores the rows y.
TESSERA_BATCH_KERNEL(rope, 128) {
  const uint32_t row = short_row(step);
  const RowIndex index = row_index(step.y, row);  // i2: the token
  const Rotation rotation = {row_at(step.x[0], index),
                             row_at(step.y, index),
                             row_of(step.x[1], index.i2 + index.i3 * step.y.ne[2], 0, 0),
                             step.y.ne[0],
                             step.x[1].ne[0],
                             step.u[0] != 0,
                             step.u[1] != 0};
  allow_next();
  wait_for_previous();
  const bool has_row = row < step.n_groups, rotates = step.variant == 0 || step.variant == 2;
  if (has_row && step.variant == 1) make_table(step, row);
  if (has_row && rotates) {
    if (is_wide(rotation.x | rotation.y | rotation.table) && rotation.n_rot % 8 == 0 && rotation.n % 4 == 0)
      rotate_wide(rotation);
    else
      rotate(rotation);
  }
  if (step.variant < 2) return;
  sync_warp();  // the other threads' parts of the row are there
  if (has_row) store_row(step, step.x[2], ints(step.x[3].data)[index.i2], index.i1, row_at(step.y, index), step.u[2]);
}

/// One thread per token. u[0]: beta as bits; u[1]: positions per step; u[2]: offset of positions.
TESSERA_KERNEL(rope_temperature, 128) {
  allow_next();
  wait_for_previous();
  const uint32_t i = group_of(step) * n_lanes() + lane();
  if (i >= step.x[0].ne[0]) return;
  const int32_t position = ints(step.x[0].data)[i];
  const uint32_t n_steps = (static_cast<uint32_t>(position < 0 ? 0 : position) + step.u[2]) / step.u[1];
  floats(row_of(step.y, 0, i, 0))[0] = 1.0f + float_of(step.u[0]) * logf(static_cast<float>(n_steps) + 1.0f);
}

}  // namespace tessera::cuda
