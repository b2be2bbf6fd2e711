// The searches of ggml for q4_0, q4_1, q5_0 and q5_1 with an imatrix: design sheet "quantizers", sections 2.1 and 2.3.
// As in ggml, codes are not chosen again after the scale is rounded to f16.
#pragma once

#include "tessera/quant/formats/groups.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline float mean_square(const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum / static_cast<float>(n);
}

/// A group with ggml's weights: importance * sqrt(variance + x^2).
template <int N>
inline void load_compat_group(const float* x, const float* importance, int n_blocks, F32x16 variance, Group<N>& group) {
  load_blocks(x, n_blocks, group.x);
  load_blocks(importance, n_blocks, group.w);
  for (int i = 0; i < N; ++i) {
    group.w[i] *= square_root(variance + group.x[i] * group.x[i]);
    group.wx[i] = group.w[i] * group.x[i];
  }
}

/// Like encode_groups(), and passes the mean square of the row.
template <typename Block,
          void (*kEncode)(const float* x, const float* importance, float variance, int n_blocks, Block* blocks)>
void encode_compat_groups(const float* x, const float* importance, int64_t n, void* to) {
  const float variance = mean_square(x, n);
  auto* row = static_cast<uint8_t*>(to);
  for (int64_t left = n / Block::kElements; left > 0; left -= kLanes) {
    const int n_blocks = left < kLanes ? static_cast<int>(left) : kLanes;
    Block blocks[kLanes];
    kEncode(x, importance, variance, n_blocks, blocks);
    memcpy(row, blocks, static_cast<size_t>(n_blocks) * sizeof(Block));
    x += kLanes * Block::kElements;
    importance += kLanes * Block::kElements;
    row += kLanes * sizeof(Block);
  }
}

/// Fits values d * (code - top) with codes 0 .. 2 top - 1. Returns d.
template <int N>
inline F32x16 compat_symmetric_codes(const Group<N>& group, float top, I32x16 (&codes)[N]) {
  const auto& [x, w, wx] = group;
  const F32x16 extreme = extreme_value(x);
  F32x16 best = {}, d = {}, best_inverse = {};
  for (int k = -10; k <= 9; ++k) {
    if (k == 0) continue;  // k = -10 is this candidate
    const F32x16 inverse = -(top + 0.1f * static_cast<float>(k == -10 ? 0 : k)) / extreme;
    F32x16 xl = {}, ll = {};
    for (int i = 0; i < N; ++i) {
      const F32x16 level = round_even(clamp(x[i] * inverse, -top, top - 1.0f));
      xl += wx[i] * level;
      ll += w[i] * level * level;
    }
    const I32x16 better = k == -10 ? broadcast_i32(-1) : (ll > 0.0f) & (xl * xl > best * ll);
    const F32x16 fit = select(ll != 0.0f, xl / ll, F32x16{});
    d = select(better, fit, d);
    best = select(better, fit * xl, best);
    best_inverse = select(better, inverse, best_inverse);
  }
  const I32x16 zero = abs(extreme) < 1e-15f;
  for (int i = 0; i < N; ++i) {
    const I32x16 code = to_i32(round_even(clamp(x[i] * best_inverse, -top, top - 1.0f)) + top);
    codes[i] = select(zero, I32x16{}, code);
  }
  return select(zero, F32x16{}, d);
}

/// Fits values d * code + m with m <= 0 and codes 0 .. top. Returns d, and m in `least`.
template <int N>
inline F32x16 compat_affine_codes(const Group<N>& group, float top, F32x16& least, I32x16 (&codes)[N]) {
  const auto& [x, w, wx] = group;
  F32x16 low = min(x[0], F32x16{}), high = x[0], sum_w = {}, sum_x = {};
  for (int i = 0; i < N; ++i) {
    low = min(x[i], low);
    high = max(x[i], high);
    sum_w += w[i];
    sum_x += wx[i];
  }
  const F32x16 range = high - low;
  const I32x16 flat = high <= low;
  const auto code_of = [&](int i, F32x16 inverse, F32x16 from) {
    return round_even(clamp(inverse * (x[i] - from), 0.0f, top));
  };
  const auto error_of = [&](F32x16 inverse, F32x16 from, F32x16 d, F32x16 m) {
    F32x16 error = {};
    for (int i = 0; i < N; ++i) {
      const F32x16 e = d * code_of(i, inverse, from) + m - x[i];
      error += w[i] * e * e;
    }
    return error;
  };

  F32x16 inverse = top / range, from = low, d = 1.0f / inverse, m = low;
  F32x16 best = error_of(inverse, from, d, m);
  for (int k = 0; k <= 36; ++k) {
    const F32x16 next = (-0.9f + 0.05f * static_cast<float>(k) + top) / range;
    F32x16 sum_l = {}, sum_ll = {}, sum_xl = {};
    for (int i = 0; i < N; ++i) {
      const F32x16 code = code_of(i, next, m), w_code = w[i] * code;
      sum_l += w_code;
      sum_ll += w_code * code;
      sum_xl += wx[i] * code;
    }
    const F32x16 determinant = sum_w * sum_ll - sum_l * sum_l;
    F32x16 slope = (sum_w * sum_xl - sum_x * sum_l) / determinant;
    F32x16 intercept = (sum_ll * sum_x - sum_l * sum_xl) / determinant;
    const I32x16 positive = intercept > 0.0f;
    slope = select(positive, sum_xl / sum_ll, slope);
    intercept = select(positive, F32x16{}, intercept);
    const F32x16 error = error_of(next, m, slope, intercept);
    const I32x16 better = (determinant > 0.0f) & (error < best);
    best = select(better, error, best);
    inverse = select(better, next, inverse);
    from = select(better, m, from);
    d = select(better, slope, d);
    m = select(better, intercept, m);
  }
  for (int i = 0; i < N; ++i) codes[i] = select(flat, I32x16{}, to_i32(code_of(i, inverse, from)));
  least = select(flat, low, m);
  return select(flat, F32x16{}, d);
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
