// Functions of floats whose straightforward forms are inaccurate or overflow. All propagate NaN. The formulas are those
// of vulkan/shaders/math.glsl; exp and log come from the device's library. Also how kernels share out and read rows.
#pragma once

#include "tessera/cuda/kernels/device.cuh"

namespace tessera::cuda {

__device__ inline bool is_nan(float v) { return v != v; }

__device__ inline float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float silu_of(float x) { return x / (1.0f + expf(-x)); }

/// x / 2 * (1 + tanh(u)) is x * sigmoid(2 u). Below -20 the result is 0; the bound prevents an overflow of the square.
__device__ inline float gelu_of(float x) {
  const float bounded = x < -20.0f ? -20.0f : x;
  const float slope = fmaf(bounded * bounded, 7.1354816e-2f, 1.5957691216f);
  return bounded / (1.0f + expf(-bounded * slope));
}

/// Uses the series near 0, where 1 - 2 / (e^2x + 1) would cancel.
__device__ inline float tanh_of(float x) {
  const float magnitude = fabsf(x), square = x * x;
  if (magnitude < 0.25f) {
    float p = 62.0f / 2835.0f;
    p = fmaf(p, square, -17.0f / 315.0f);
    p = fmaf(p, square, 2.0f / 15.0f);
    p = fmaf(p, square, -1.0f / 3.0f);
    return x * fmaf(p, square, 1.0f);
  }
  const float v = 1.0f - 2.0f / (expf(2.0f * magnitude) + 1.0f);
  return x < 0.0f ? -v : v;
}

/// e^x - 1 for x <= 0, without cancellation near 0.
__device__ inline float expm1_of(float x) {
  const float t = tanh_of(0.5f * (x < -30.0f ? -30.0f : x));
  return 2.0f * t / (1.0f - t);
}

/// ln(1 + u), 0 <= u <= 1: 2 artanh(z) with z = u / (2 + u) <= 1/3.
__device__ inline float log1p_of_unit(float u) {
  const float z = u / (2.0f + u), square = z * z;
  float p = 1.0f / 15.0f;
  p = fmaf(p, square, 1.0f / 13.0f);
  p = fmaf(p, square, 1.0f / 11.0f);
  p = fmaf(p, square, 1.0f / 9.0f);
  p = fmaf(p, square, 1.0f / 7.0f);
  p = fmaf(p, square, 1.0f / 5.0f);
  p = fmaf(p, square, 1.0f / 3.0f);
  p = fmaf(p, square, 1.0f);
  return 2.0f * z * p;
}
__device__ inline float softplus_of(float x) {
  return is_nan(x) ? x : (x > 0.0f ? x : 0.0f) + log1p_of_unit(expf(-fabsf(x)));
}

struct CosSin {
  float cos, sin;
};
/// Cosine and sine of an angle in units of 2^-32 turns. The quarter of the circle selects the formula, and polynomials
/// of the angle from the quarter's middle give the values (errors below 1e-7).
__device__ inline CosSin cos_sin_of(uint32_t turns) {
  const uint32_t quarter = (turns + 0x20000000u) >> 30;
  const float angle =
      static_cast<float>(static_cast<int32_t>(turns - (quarter << 30))) * 1.4629180792671596e-9f;  // 2 pi / 2^32
  const float square = angle * angle;
  float s = fmaf(square, 2.7557319e-6f, -1.9841270e-4f);
  s = fmaf(square, s, 8.3333333e-3f);
  s = fmaf(square, s, -1.6666667e-1f);
  s = angle * fmaf(square, s, 1.0f);
  float c = fmaf(square, 2.4801587e-5f, -1.3888889e-3f);
  c = fmaf(square, c, 4.1666667e-2f);
  c = fmaf(square, c, -0.5f);
  c = fmaf(square, c, 1.0f);
  if (quarter == 0) return {c, s};
  if (quarter == 1) return {-s, c};
  if (quarter == 2) return {-c, -s};
  return {s, -c};
}

// ---- Rows and pieces of 16 bytes, the most that a thread reads or writes with one instruction.

struct alignas(16) Float4 {
  float v[4];
};
constexpr uint32_t kWideBytes = 16;
__device__ inline bool is_wide(uint64_t address) { return address % kWideBytes == 0; }
__device__ inline Float4 float4_at(uint64_t address) { return *at<const Float4>(address); }

/// The indices of a row. Kernels compute them once, and before they wait: divisions take long.
struct RowIndex {
  uint32_t i1, i2, i3;
};
/// Of the i-th row of an operand in row-major order.
__device__ inline RowIndex row_index(const Operand& o, uint32_t i) {
  const uint32_t outer = i / o.ne[1], i3 = outer < o.ne[2] ? 0 : outer / o.ne[2];
  return {i - outer * o.ne[1], outer - i3 * o.ne[2], i3};
}
__device__ inline uint64_t row_at(const Operand& o, const RowIndex& row) { return row_of(o, row.i1, row.i2, row.i3); }

/// Several short rows share a block: each has so many threads.
constexpr uint32_t kRowLanes = 16;
/// The row of this thread in a block of whole rows, and the thread's index among those of the row.
__device__ inline uint32_t short_row(const Params& step) {
  return group_of(step) * (n_lanes() / kRowLanes) + lane() / kRowLanes;
}
__device__ inline uint32_t row_lane() { return lane() % kRowLanes; }

}  // namespace tessera::cuda
