// Operations on whole rows: a warp per short row, a block per longer one. How a row is distributed over threads, and so
// the bits of its result, depends on its length only.
//   u[0]: eps as bits; u[1]: 1 if the weights x[1] are in memory that no kernel writes
//   x[3], x[4]: if present, operands of an addition whose result is x[0]: this kernel computes it, too
// Also sum_squares, one thread per column.
#include "tessera/cuda/kernels/math.cuh"

namespace tessera::cuda {

namespace {

// Variants: NormOp in gpu/ops/norm.cpp.
enum : uint32_t { kRmsNorm, kLayerNorm, kL2Norm, kSoftMax };  // and row_sum

/// Pieces of 16 bytes of a row that a thread keeps in registers. Longer rows are read again for each use.
constexpr uint32_t kPieces = 2;
constexpr uint32_t kShortNorm = 4 * kPieces * kWarp;  // as in cuda/kernels.h
constexpr uint32_t kMostWarps = 32;

/// The part that a thread has in a row.
struct Row {
  uint64_t x, y;
  uint32_t n;
  uint32_t index, n_threads;   // of this thread in the row
  float (*rooms)[kMostWarps];  // shared memory for two reductions

  __device__ uint32_t part() const { return 4 * kPieces * n_threads; }  // elements in registers at a time
  __device__ bool is_whole() const { return n <= part(); }
  __device__ uint32_t first(uint32_t begin, uint32_t piece) const { return begin + 4 * (index + piece * n_threads); }
};

/// What a thread has of part of a row: elements row.first(begin, k) + j. Those past the end are 0.
struct Values {
  float v[kPieces][4];
};

__device__ inline void load(const Row& row, uint64_t from, uint32_t begin, Values& values) {
  const bool has_wide = is_wide(from);
#pragma unroll
  for (uint32_t k = 0; k < kPieces; ++k) {
    const uint32_t i = row.first(begin, k);
    if (has_wide && i + 4 <= row.n) {
      const Float4 piece = float4_at(from + 4 * uint64_t{i});
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) values.v[k][j] = piece.v[j];
    } else {
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) values.v[k][j] = i + j < row.n ? floats(from)[i + j] : 0.0f;
    }
  }
}
__device__ inline void store(const Row& row, uint64_t to, uint32_t begin, const Values& values) {
  const bool has_wide = is_wide(to);
#pragma unroll
  for (uint32_t k = 0; k < kPieces; ++k) {
    const uint32_t i = row.first(begin, k);
    if (has_wide && i + 4 <= row.n) {
      *at<Float4>(to + 4 * uint64_t{i}) = {values.v[k][0], values.v[k][1], values.v[k][2], values.v[k][3]};
    } else {
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j)
        if (i + j < row.n) floats(to)[i + j] = values.v[k][j];
    }
  }
}

/// Calls use(value, k, j) for the elements of this thread in values, in the order of the row.
template <class V, class Use>
__device__ inline void each(const Row& row, uint32_t begin, V& values, Use use) {
#pragma unroll
  for (uint32_t k = 0; k < kPieces; ++k)
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j)
      if (row.first(begin, k) + j < row.n) use(values.v[k][j], k, j);
}
/// Calls use(begin) with each part of the row in x, which has the first one already if that is the whole row.
template <class Use>
__device__ inline void each_part(const Row& row, Values& x, Use use) {
  for (uint32_t begin = 0; begin < row.n; begin += row.part()) {
    if (!row.is_whole()) load(row, row.x, begin, x);
    use(begin);
  }
}

/// Reductions over the threads of a row, each of which receives the result. Each use in a kernel needs a room of its
/// own (0 or 1), and then one barrier is enough.
__device__ inline float sum_over_row(const Row& row, float v, uint32_t room) {
  const float part = sum_over_warp(v);
  if (row.n_threads == kWarp) return part;
  float* parts = row.rooms[room];
  if (lane() % kWarp == 0) parts[lane() / kWarp] = part;
  sync_group();
  float sum = 0;
  for (uint32_t i = 0; i < n_lanes() / kWarp; i += 4) {
    const Float4 four = *reinterpret_cast<const Float4*>(parts + i);
    for (uint32_t j = 0; j < 4; ++j) sum += four.v[j];
  }
  return sum;
}
__device__ inline float max_over_row(const Row& row, float v, uint32_t room) {
  const float part = max_over_warp(v);
  if (row.n_threads == kWarp) return part;
  float* parts = row.rooms[room];
  if (lane() % kWarp == 0) parts[lane() / kWarp] = part;
  sync_group();
  float highest = parts[0];
  for (uint32_t i = 1; i < n_lanes() / kWarp; ++i) highest = fmaxf(highest, parts[i]);
  return highest;
}

__device__ inline float sum_of_squares(const Row& row, Values& x, float origin, uint32_t room) {
  float squares = 0;
  each_part(row, x, [&](uint32_t begin) {
    each(row, begin, x, [&](float v, uint32_t, uint32_t) { squares = fmaf(v - origin, v - origin, squares); });
  });
  return sum_over_row(row, squares, room);
}
__device__ inline float sum_of(const Row& row, Values& x, uint32_t room) {
  float sum = 0;
  each_part(row, x, [&](uint32_t begin) { each(row, begin, x, [&](float v, uint32_t, uint32_t) { sum += v; }); });
  return sum_over_row(row, sum, room);
}

/// The result of a norm: (x - mean) * factor, by weight, plus bias. weight has the first part of x[1].
__device__ inline void scale_row(const Params& step, const Row& row, Values& x, Values& weight, float mean,
                                 float factor) {
  const bool has_weight = step.x[1].data != 0, has_bias = step.x[2].data != 0;
  each_part(row, x, [&](uint32_t begin) {
    Values bias;
    if (has_weight && !row.is_whole()) load(row, step.x[1].data, begin, weight);
    if (has_bias) load(row, step.x[2].data, begin, bias);
    each(row, begin, x, [&](float& v, uint32_t k, uint32_t j) {
      v = (v - mean) * factor;
      if (has_weight) v *= weight.v[k][j];
      if (has_bias) v += bias.v[k][j];
    });
    store(row, row.y, begin, x);
  });
}

/// fmaxf skips NaNs. They reach the results through the sum.
__device__ inline void soft_max(const Row& row, Values& x) {
  float highest = -infinity();
  each_part(row, x, [&](uint32_t begin) {
    each(row, begin, x, [&](float v, uint32_t, uint32_t) { highest = fmaxf(highest, v); });
  });
  highest = max_over_row(row, highest, 0);
  const bool is_masked = highest == -infinity();  // all elements are
  const auto term = [&](float v) { return is_masked ? (is_nan(v) ? v : 0.0f) : expf(v - highest); };
  float sum = 0;
  each_part(row, x, [&](uint32_t begin) {
    each(row, begin, x, [&](float& v, uint32_t, uint32_t) {
      v = term(v);
      sum += v;
    });
  });
  sum = is_masked ? 1.0f : sum_over_row(row, sum, 1);  // all threads agree
  each_part(row, x, [&](uint32_t begin) {
    each(row, begin, x, [&](float& v, uint32_t, uint32_t) { v = (row.is_whole() ? v : term(v)) / sum; });
    store(row, row.y, begin, x);
  });
}

/// Computes x[0] = x[3] + x[4]. If that is the whole row, x has it then.
__device__ inline void add(const Params& step, const Row& row, const RowIndex& index, Values& x) {
  const uint64_t a = row_at(step.x[3], index), b = row_at(step.x[4], index);
  for (uint32_t begin = 0; begin < row.n; begin += row.part()) {
    Values other;
    load(row, a, begin, x);
    load(row, b, begin, other);
    each(row, begin, x, [&](float& v, uint32_t k, uint32_t j) { v += other.v[k][j]; });
    store(row, row.x, begin, x);  // a thread reads only what it has written itself
  }
}

}  // namespace

TESSERA_BATCH_KERNEL(norm, 1024) {
  alignas(16) __shared__ float rooms[2][kMostWarps];
  const uint32_t n = step.x[0].ne[0];
  const bool is_short = n <= kShortNorm;
  const uint32_t i = is_short ? group_of(step) * (n_lanes() / kWarp) + lane() / kWarp : group_of(step);
  const RowIndex index = row_index(step.x[0], i);
  const Row row = {row_at(step.x[0], index),           row_at(step.y, index),        n,
                   is_short ? lane() % kWarp : lane(), is_short ? kWarp : n_lanes(), rooms};
  const bool has_weight = step.x[1].data != 0, is_constant = step.u[1] != 0;
  Values x, weight;
  if (has_weight && is_constant) load(row, step.x[1].data, 0, weight);
  allow_next();
  wait_for_previous();
  if (i >= step.n_groups) return;
  if (step.x[3].data != 0)
    add(step, row, index, x);
  else if (row.is_whole())
    load(row, row.x, 0, x);
  if (has_weight && !is_constant) load(row, step.x[1].data, 0, weight);
  const float eps = float_of(step.u[0]), count = static_cast<float>(n);
  switch (step.variant) {
    case kRmsNorm: {
      const float factor = 1.0f / sqrtf(sum_of_squares(row, x, 0.0f, 0) / count + eps);
      return scale_row(step, row, x, weight, 0.0f, factor);
    }
    case kLayerNorm: {
      const float mean = sum_of(row, x, 0) / count;
      const float factor = 1.0f / sqrtf(sum_of_squares(row, x, mean, 1) / count + eps);
      return scale_row(step, row, x, weight, mean, factor);
    }
    case kL2Norm: {
      const float norm = sqrtf(sum_of_squares(row, x, 0.0f, 0));
      return scale_row(step, row, x, weight, 0.0f, 1.0f / (norm < eps ? eps : norm));
    }
    case kSoftMax:
      return soft_max(row, x);
    default: {
      const float sum = sum_of(row, x, 0);
      if (row.index == 0) floats(row.y)[0] = sum;
    }
  }
}

/// One thread per column, which adds the rows in order.
TESSERA_KERNEL(norm_sum_squares, 128) {
  allow_next();
  wait_for_previous();
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
