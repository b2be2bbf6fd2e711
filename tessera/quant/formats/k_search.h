// tessera's search for the K-quants: the least sum w (x - value)^2 with the decoded values.
//
// First, each sub-block is fitted alone, by trying ranges and solving the weighted least squares of each. Then the
// scales of a super-block are refined together (design sheet "quantizers", 2.8 step 4), in rounds of two steps. For the
// f16 values of d and dmin, every sub-block gets the best of the scale codes around its scale, with the codes of its
// elements rounded again. Then d and dmin are solved by least squares for those codes.
#pragma once

#include "tessera/quant/formats/k_lanes.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

/// The f16 nearest to v >= 0, but not below v if the steps of f16 are coarse: a smaller scale clips the largest values.
inline uint16_t scale_f16(float v) {
  const uint16_t h = finite_f16(v);
  const bool short_of = f16_to_f32(h) < v * 0.998f && h < 0x400u;
  return short_of ? static_cast<uint16_t>(h + 1) : h;
}

/// Offsets first, first + step, ... in codes, by which the ends of a sub-block's values may exceed the range of codes
/// (negative: stay within it).
struct Offsets {
  float first, step;
  int count;
};

/// Tries each offset for each end of the range of codes. Returns the fit with the least error by least squares, m >= 0.
template <int N>
inline AffineFit fit_affine(const Lanes<N>& lanes, float top, Offsets offsets) {
  F32x16 low = {}, high = lanes.x[0], sum_w = {}, sum_x = {};
  for (int i = 0; i < N; ++i) {
    low = min(lanes.x[i], low);
    high = max(lanes.x[i], high);
    sum_w += lanes.w[i];
    sum_x += lanes.w[i] * lanes.x[i];
  }
  const F32x16 range = high - low;
  AffineFit best = {F32x16{}, -low};
  F32x16 best_gain = broadcast(-1.0f);
  for (int pair = 0; pair < offsets.count * offsets.count; ++pair) {
    const float below = offsets.first + offsets.step * static_cast<float>(pair / offsets.count);
    const float above = offsets.first + offsets.step * static_cast<float>(pair % offsets.count);
    const F32x16 inverse = (top + above + below) / range, shift = below + low * inverse;
    F32x16 sum_l = {}, sum_l2 = {}, sum_xl = {};
    for (int i = 0; i < N; ++i) {
      const F32x16 code = code_of(lanes.x[i] * inverse - shift, top);
      const F32x16 wl = lanes.w[i] * code;
      sum_l += wl;
      sum_l2 += wl * code;
      sum_xl += wl * lanes.x[i];
    }
    const F32x16 determinant = sum_w * sum_l2 - sum_l * sum_l;
    F32x16 m = (sum_l * sum_xl - sum_l2 * sum_x) / determinant;
    F32x16 a = (sum_w * sum_xl - sum_x * sum_l) / determinant;
    const I32x16 free = (determinant > 0.0f) & (m > 0.0f);
    m = select(free, m, F32x16{});
    a = select(free, a, sum_xl / sum_l2);
    const F32x16 gain = a * sum_xl - m * sum_x;  // reduction of the error below sum w x^2
    const I32x16 better = (gain > best_gain) & (a > 0.0f);
    best_gain = select(better, gain, best_gain);
    best.a = select(better, a, best.a);
    best.m = select(better, m, best.m);
  }
  return best;
}

template <int N>
[[gnu::always_inline]] inline F32x16 affine_error(const Lanes<N>& lanes, float top, F32x16 a, F32x16 inverse,
                                                  F32x16 m) {
  F32x16 error = {};
  for (int i = 0; i < N; ++i) {
    const F32x16 shifted = lanes.x[i] + m;
    const F32x16 difference = a * code_of(shifted * inverse, top) - shifted;
    error += lanes.w[i] * (difference * difference);
  }
  return error;
}

/// Sets in each lane the (ls, lm) with the least error within reach of the given ones. Returns that error.
template <int N>
inline F32x16 search_scales(const Lanes<N>& lanes, float top, float scale_top, int reach, F32x16 d, F32x16 dmin,
                            F32x16& ls, F32x16& lm) {
  const F32x16 ls_0 = ls, lm_0 = lm;
  F32x16 best = broadcast(__builtin_inff());
  for (int i = -reach; i <= reach; ++i) {
    const F32x16 new_ls = clamp(ls_0 + static_cast<float>(i), 0.0f, scale_top), a = d * new_ls;
    const F32x16 inverse = select(a > 0.0f, 1.0f / a, F32x16{});
    for (int j = -reach; j <= reach; ++j) {
      const F32x16 new_lm = clamp(lm_0 + static_cast<float>(j), 0.0f, scale_top);
      const F32x16 error = affine_error(lanes, top, a, inverse, dmin * new_lm);
      const I32x16 better = error < best;
      best = select(better, error, best);
      ls = select(better, new_ls, ls);
      lm = select(better, new_lm, lm);
    }
  }
  return best;
}

/// Weighted least squares of x = d * (ls code) - dmin * lm over each super-block, as f16. A super-block without a
/// solution with d > 0 and dmin >= 0 keeps its d and dmin.
template <int N>
inline void solve_scales(const Lanes<N>& lanes, float top, F32x16 ls, F32x16 lm, uint16_t (&d)[N / 16],
                         uint16_t (&dmin)[N / 16]) {
  const F32x16 a = scale_of(lanes, d) * ls, m = scale_of(lanes, dmin) * lm;
  const F32x16 inverse = select(a > 0.0f, 1.0f / a, F32x16{});
  F32x16 sum_w = {}, sum_x = {}, sum_l = {}, sum_l2 = {}, sum_xl = {};
  for (int i = 0; i < N; ++i) {
    const F32x16 code = code_of((lanes.x[i] + m) * inverse, top), wl = lanes.w[i] * code;
    sum_w += lanes.w[i];
    sum_x += lanes.w[i] * lanes.x[i];
    sum_l += wl;
    sum_l2 += wl * code;
    sum_xl += wl * lanes.x[i];
  }
  float pp[N / 16], pr[N / 16], rr[N / 16], px[N / 16], rx[N / 16];
  sum_lanes<N>(ls * ls * sum_l2, pp);
  sum_lanes<N>(-ls * lm * sum_l, pr);
  sum_lanes<N>(lm * lm * sum_w, rr);
  sum_lanes<N>(ls * sum_xl, px);
  sum_lanes<N>(-lm * sum_x, rx);
  for (int super = 0; super < Lanes<N>::kSupers; ++super) {
    const float determinant = pp[super] * rr[super] - pr[super] * pr[super];
    float new_d, new_dmin;
    if (determinant > 1e-6f * pp[super] * rr[super]) {
      new_d = (px[super] * rr[super] - rx[super] * pr[super]) / determinant;
      new_dmin = (rx[super] * pp[super] - px[super] * pr[super]) / determinant;
    } else {  // no mins
      if (!(pp[super] > 0.0f) || rr[super] > 0.0f) continue;
      new_d = px[super] / pp[super];
      new_dmin = 0.0f;
    }
    if (!(new_d > 0.0f && new_dmin >= 0.0f)) continue;
    d[super] = finite_f16(new_d * lanes.unit[super]);
    dmin[super] = finite_f16(new_dmin * lanes.unit[super]);
  }
}

/// Keeps the super-blocks whose error with `coded` is below the error of zeros. The others become zeros.
template <int N>
inline void drop_useless(const Lanes<N>& lanes, Coded<N>& coded) {
  const F32x16 a = scale_of(lanes, coded.d) * coded.ls, m = scale_of(lanes, coded.dmin) * coded.lm;
  F32x16 error = {}, error_of_zeros = {};
  for (int i = 0; i < N; ++i) {
    const F32x16 difference = a * coded.codes[i] - m - lanes.x[i];
    error += lanes.w[i] * (difference * difference);
    error_of_zeros += lanes.w[i] * (lanes.x[i] * lanes.x[i]);
  }
  float sums[N / 16], sums_of_zeros[N / 16];
  sum_lanes<N>(error, sums);
  sum_lanes<N>(error_of_zeros, sums_of_zeros);
  for (int super = 0; super < Lanes<N>::kSupers; ++super)
    if (!(sums[super] < sums_of_zeros[super])) coded.d[super] = coded.dmin[super] = 0;
}

struct RefineSteps {
  int loops, reach;
};

/// Refines a start to coded super-blocks: codes 0..top, ls and lm 0..scale_top.
template <int N>
inline void refine_affine(const Lanes<N>& lanes, const AffineFit& start, float top, float scale_top, RefineSteps steps,
                          Coded<N>& coded) {
  constexpr int kSupers = Lanes<N>::kSupers;
  float d_0[kSupers], dmin_0[kSupers], best[kSupers];
  uint16_t d[kSupers], dmin[kSupers];
  max_lanes<N>(start.a, d_0);
  max_lanes<N>(start.m, dmin_0);
  for (int super = 0; super < kSupers; ++super) {
    d[super] = scale_f16(d_0[super] / scale_top * lanes.unit[super]);
    dmin[super] = scale_f16(dmin_0[super] / scale_top * lanes.unit[super]);
    coded.d[super] = coded.dmin[super] = 0;
    best[super] = __builtin_inff();
  }
  F32x16 ls = code_of(start.a / scale_of(lanes, d), scale_top);
  F32x16 lm = code_of(start.m / scale_of(lanes, dmin), scale_top);
  coded.ls = coded.lm = F32x16{};
  for (int loop = 0; loop < steps.loops; ++loop) {
    if (loop > 0) solve_scales(lanes, top, ls, lm, d, dmin);
    const F32x16 error =
        search_scales(lanes, top, scale_top, steps.reach, scale_of(lanes, d), scale_of(lanes, dmin), ls, lm);
    float sums[kSupers];
    sum_lanes<N>(error, sums);
    bool improved = false;
    float is_better[kSupers];
    for (int super = 0; super < kSupers; ++super) {
      is_better[super] = sums[super] < best[super] ? 1.0f : 0.0f;
      best[super] = sums[super] < best[super] ? sums[super] : 0.0f;  // 0 ends it, independent of its neighbour
      if (is_better[super] == 0.0f) continue;
      improved = true;
      coded.d[super] = d[super];
      coded.dmin[super] = dmin[super];
    }
    if (!improved) break;
    const I32x16 better = spread<N>(is_better) > 0.0f;
    coded.ls = select(better, ls, coded.ls);
    coded.lm = select(better, lm, coded.lm);
  }
  recode(lanes, 0.0f, top, coded);
  drop_useless(lanes, coded);
}

/// Scales for codes low..-low-1, for each lane alone. Tries ranges in both orientations, because the codes have one
/// more value below 0.
template <int N>
inline F32x16 fit_symmetric(const Lanes<N>& lanes, float low, Offsets offsets) {
  const F32x16 reciprocal = 1.0f / extreme_of(lanes.x);
  F32x16 wx[N];
  for (int i = 0; i < N; ++i) wx[i] = lanes.w[i] * lanes.x[i];
  F32x16 scale = {}, best = {};
  const float ends[] = {low, -low - 1.0f};
  for (const float end : ends) {
    for (int s = 0; s < offsets.count; ++s) {
      const float offset = offsets.first + offsets.step * static_cast<float>(s);
      const F32x16 inverse = (end + (end < 0.0f ? -offset : offset)) * reciprocal;
      F32x16 sum_xl = {}, sum_l2 = {};
      for (int i = 0; i < N; ++i) {
        const F32x16 code = code_of(lanes.x[i] * inverse, low, -low - 1.0f);
        sum_xl += wx[i] * code;
        sum_l2 += lanes.w[i] * code * code;
      }
      const F32x16 new_scale = sum_xl / sum_l2, gain = new_scale * sum_xl;
      const I32x16 better = gain > best;
      scale = select(better, new_scale, scale);
      best = select(better, gain, best);
    }
  }
  return scale;
}

/// Refines scales of sub-blocks to coded super-blocks: codes low..-low-1, ls scale_low..-scale_low-1.
template <int N>
inline void refine_symmetric(const Lanes<N>& lanes, F32x16 scales, float low, float scale_low, RefineSteps steps,
                             Coded<N>& coded) {
  static_assert(Lanes<N>::kSupers == 1);
  float values[kLanes], extreme = 0.0f;
  store(scales, values);
  for (const float v : values) extreme = __builtin_fabsf(v) > __builtin_fabsf(extreme) ? v : extreme;

  const float top = -low - 1.0f, scale_top = -scale_low - 1.0f, start = extreme / scale_low * lanes.unit[0];
  uint16_t d[1] = {scale_f16(__builtin_fabsf(start))};
  if (start < 0.0f) d[0] |= 0x8000u;
  F32x16 ls = code_of(scales / scale_of(lanes, d), scale_low, scale_top);
  float best = __builtin_inff();
  coded.d[0] = coded.dmin[0] = 0;
  coded.ls = coded.lm = F32x16{};
  for (int loop = 0; loop < steps.loops; ++loop) {
    const F32x16 d_lanes = scale_of(lanes, d), ls_0 = ls;
    F32x16 error = broadcast(__builtin_inff()), sum_xl = {}, sum_l2 = {};
    for (int step = -steps.reach; step <= steps.reach; ++step) {
      const F32x16 new_ls = clamp(ls_0 + static_cast<float>(step), scale_low, scale_top), a = d_lanes * new_ls;
      const F32x16 inverse = select(a == 0.0f, F32x16{}, 1.0f / a);
      F32x16 new_error = {}, new_xl = {}, new_l2 = {};
      for (int i = 0; i < N; ++i) {
        const F32x16 code = code_of(lanes.x[i] * inverse, low, top), wl = lanes.w[i] * code;
        const F32x16 difference = a * code - lanes.x[i];
        new_error += lanes.w[i] * (difference * difference);
        new_xl += wl * lanes.x[i];
        new_l2 += wl * code;
      }
      const I32x16 better = new_error < error;
      error = select(better, new_error, error);
      sum_xl = select(better, new_xl, sum_xl);
      sum_l2 = select(better, new_l2, sum_l2);
      ls = select(better, new_ls, ls);
    }
    float sums[1], xl[1], l2[1];
    sum_lanes<N>(error, sums);
    if (!(sums[0] < best)) break;
    best = sums[0];
    coded.d[0] = d[0];
    coded.ls = ls;
    sum_lanes<N>(ls * sum_xl, xl);
    sum_lanes<N>(ls * ls * sum_l2, l2);
    if (!(l2[0] > 0.0f)) break;
    d[0] = finite_f16(xl[0] / l2[0] * lanes.unit[0]);
  }
  recode(lanes, low, top, coded);
  drop_useless(lanes, coded);
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
