// ggml's searches for the scales of K-quants (design sheet "quantizers", 2.1): the same candidates, comparisons and
// order of sums, on 16 sub-blocks at once. A lane without weights keeps the result of the first candidate.
#pragma once

#include "tessera/quant/formats/k_lanes.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

struct AffineCandidates {
  float first, step;
  int count;  // candidates after the first guess: first, first + step, ... (count + 1 of them)
};

enum class Deviation { kSquared, kAbsolute };

/// AFF: codes 0..top. Each candidate starts from the minimum of the best candidate so far.
template <int N, Deviation kDeviation>
inline AffineFit compat_affine(const Lanes<N>& lanes, float top, AffineCandidates candidates) {
  const auto& [x, w, unit] = lanes;
  F32x16 low = {}, high = x[0], sum_w = {}, sum_x = {};
  for (int i = 0; i < N; ++i) {
    low = min(x[i], low);
    high = max(x[i], high);
    sum_w += w[i];
    sum_x += w[i] * x[i];
  }
  const I32x16 flat = high <= low;
  const auto error_of = [&](const F32x16(&codes)[N], F32x16 a, F32x16 b) {
    F32x16 error = {};
    for (int i = 0; i < N; ++i) {
      const F32x16 difference = a * codes[i] + b - x[i];
      error += w[i] * (kDeviation == Deviation::kSquared ? difference * difference : abs(difference));
    }
    return error;
  };

  F32x16 codes[N];
  F32x16 inverse = top / (high - low), a = 1.0f / inverse;
  for (int i = 0; i < N; ++i) codes[i] = code_of(inverse * (x[i] - low), top);
  F32x16 best = error_of(codes, a, low);
  const F32x16 lowest = low;
  for (int s = 0; s <= candidates.count; ++s) {
    inverse = (candidates.first + candidates.step * static_cast<float>(s) + top) / (high - low);
    F32x16 sum_l = {}, sum_l2 = {}, sum_xl = {};
    for (int i = 0; i < N; ++i) {
      codes[i] = code_of(inverse * (x[i] - low), top);
      const F32x16 wl = w[i] * codes[i];
      sum_l += wl;
      sum_l2 += wl * codes[i];
      sum_xl += wl * x[i];
    }
    const F32x16 determinant = sum_w * sum_l2 - sum_l * sum_l;
    F32x16 new_a = (sum_w * sum_xl - sum_x * sum_l) / determinant;
    F32x16 new_b = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
    const I32x16 above = new_b > 0.0f;
    new_a = select(above, sum_xl / sum_l2, new_a);
    new_b = select(above, F32x16{}, new_b);
    const F32x16 error = error_of(codes, new_a, new_b);
    const I32x16 better = (determinant > 0.0f) & (error < best);
    best = select(better, error, best);
    a = select(better, new_a, a);
    low = select(better, new_b, low);
  }
  return {select(flat, F32x16{}, a), -select(flat, lowest, low)};
}

/// SYM: scales for codes -top..top-1.
template <int N>
inline F32x16 compat_symmetric(const Lanes<N>& lanes, float top) {
  const F32x16 extreme = extreme_of(lanes.x);
  F32x16 scale = {}, best = broadcast(-1.0f);
  for (int s = -10; s <= 9; ++s) {  // -10 stands for the first guess, without an offset
    if (s == 0) continue;
    const F32x16 inverse = -(top + (s == -10 ? 0.0f : 0.1f * static_cast<float>(s))) / extreme;
    F32x16 sum_xl = {}, sum_l2 = {};
    for (int i = 0; i < N; ++i) {
      const F32x16 code = code_of(inverse * lanes.x[i], -top, top - 1.0f);
      sum_xl += lanes.w[i] * lanes.x[i] * code;
      sum_l2 += lanes.w[i] * code * code;
    }
    const I32x16 better = (sum_l2 > 0.0f) & (sum_xl * sum_xl > best * sum_l2);
    scale = select(better, sum_xl / sum_l2, scale);
    best = select(better, scale * sum_xl, best);
  }
  return select(abs(extreme) < 1e-15f, F32x16{}, scale);
}

/// Q3S: scales for codes -top..top-1, weights x^2. One candidate, then up to five sweeps that change one code at a
/// time.
template <int N>
inline F32x16 compat_sweeps(const F32x16 (&x)[N], float top) {
  const F32x16 extreme = extreme_of(x), inverse = -top / extreme;
  F32x16 codes[N], sum_xl = {}, sum_l2 = {};
  for (int i = 0; i < N; ++i) {
    codes[i] = code_of(inverse * x[i], -top, top - 1.0f);
    const F32x16 w = x[i] * x[i];
    sum_xl += w * x[i] * codes[i];
    sum_l2 += w * codes[i] * codes[i];
  }
  for (int sweep = 0; sweep < 5; ++sweep) {
    I32x16 changed = {};
    for (int i = 0; i < N; ++i) {
      const F32x16 w = x[i] * x[i];
      const F32x16 rest_xl = sum_xl - w * x[i] * codes[i], rest_l2 = sum_l2 - w * codes[i] * codes[i];
      const F32x16 code = code_of(x[i] * rest_l2 / rest_xl, -top, top - 1.0f);
      const F32x16 new_xl = rest_xl + w * x[i] * code, new_l2 = rest_l2 + w * code * code;
      const I32x16 better = (rest_xl > 0.0f) & (code != codes[i]) & (new_l2 > 0.0f) &
                            (new_xl * new_xl * sum_l2 > sum_xl * sum_xl * new_l2);
      codes[i] = select(better, code, codes[i]);
      sum_xl = select(better, new_xl, sum_xl);
      sum_l2 = select(better, new_l2, sum_l2);
      changed |= better;
    }
    if (!any(changed)) break;
  }
  return select((abs(extreme) < 1e-15f) | (sum_l2 <= 0.0f), F32x16{}, sum_xl / sum_l2);
}

/// A scale for the scales of sub-blocks, and their codes.
template <int N>
struct CodedScales {
  float d;
  float codes[N];
};

inline float rounded(float v, float low, float top) {
  const float magic = 0x1.8p23f, in_range = !(v >= low) ? low : (v > top ? top : v);
  return (in_range + magic) - magic;
}

/// POS: values >= 0 as d * code with codes 0..top.
template <int N>
inline CodedScales<N> compat_positive(const float* v, const float* w, float top) {
  CodedScales<N> out = {};
  float largest = 0.0f;
  for (int i = 0; i < N; ++i) largest = v[i] > largest ? v[i] : largest;
  if (largest < 1e-15f) return out;
  float best_inverse = 0.0f, best = 0.0f;
  for (int s = -5; s <= 4; ++s) {  // -5 stands for the first guess, without an offset
    if (s == 0) continue;
    const float inverse = (top + (s == -5 ? 0.0f : 0.1f * static_cast<float>(s))) / largest, scale = 1.0f / inverse;
    float error = 0.0f;
    for (int i = 0; i < N; ++i) {
      const float difference = v[i] - scale * rounded(inverse * v[i], 0.0f, top);
      error += w[i] * difference * difference;
    }
    if (s != -5 && !(error < best)) continue;
    best = error;
    best_inverse = inverse;
  }
  float sum_vl = 0.0f, sum_l2 = 0.0f;
  for (int i = 0; i < N; ++i) {
    out.codes[i] = rounded(best_inverse * v[i], 0.0f, top);
    sum_vl += w[i] * v[i] * out.codes[i];
    sum_l2 += w[i] * out.codes[i] * out.codes[i];
  }
  for (int sweep = 0; sweep < 5; ++sweep) {
    bool changed = false;
    for (int i = 0; i < N; ++i) {
      const float rest_vl = sum_vl - w[i] * v[i] * out.codes[i];
      const float rest_l2 = sum_l2 - w[i] * out.codes[i] * out.codes[i];
      if (!(rest_vl > 0.0f && rest_l2 > 0.0f)) continue;
      const float code = rounded(v[i] * rest_l2 / rest_vl, 0.0f, top);
      if (code == out.codes[i]) continue;
      const float new_vl = rest_vl + w[i] * v[i] * code, new_l2 = rest_l2 + w[i] * code * code;
      if (!(new_vl * new_vl * sum_l2 > sum_vl * sum_vl * new_l2)) continue;
      out.codes[i] = code;
      sum_vl = new_vl;
      sum_l2 = new_l2;
      changed = true;
    }
    if (!changed) break;
  }
  out.d = sum_l2 > 0.0f ? sum_vl / sum_l2 : 0.0f;
  return out;
}

/// SYM on sub-block scales: codes -top..top-1.
template <int N>
inline CodedScales<N> compat_signed(const float* v, const float* w, float top) {
  CodedScales<N> out = {};
  float extreme = 0.0f;
  for (int i = 0; i < N; ++i) extreme = __builtin_fabsf(v[i]) > __builtin_fabsf(extreme) ? v[i] : extreme;
  if (__builtin_fabsf(extreme) < 1e-15f) return out;
  float best = -1.0f;
  for (int s = -10; s <= 9; ++s) {  // -10 stands for the first guess, without an offset
    if (s == 0) continue;
    const float inverse = -(top + (s == -10 ? 0.0f : 0.1f * static_cast<float>(s))) / extreme;
    float codes[N], sum_vl = 0.0f, sum_l2 = 0.0f;
    for (int i = 0; i < N; ++i) {
      codes[i] = rounded(inverse * v[i], -top, top - 1.0f);
      sum_vl += w[i] * v[i] * codes[i];
      sum_l2 += w[i] * codes[i] * codes[i];
    }
    if (!(sum_l2 > 0.0f && sum_vl * sum_vl > best * sum_l2)) continue;
    out.d = sum_vl / sum_l2;
    best = out.d * sum_vl;
    memcpy(out.codes, codes, sizeof codes);
  }
  return out;
}

/// w = q * sqrt(factor * mean x^2 + x^2), with the mean over each super-block. On entry w holds q, from load_weights().
template <int N>
inline void compat_importance(Lanes<N>& lanes, float factor) {
  F32x16 squares = {};
  for (const F32x16& x : lanes.x) squares += x * x;
  float sigma2[N / 16];
  sum_lanes<N>(squares, sigma2);
  for (float& s : sigma2) s = factor * s / static_cast<float>(kSuperElements);
  const F32x16 base = spread<N>(sigma2);
  for (int i = 0; i < N; ++i) lanes.w[i] = lanes.w[i] * sqrt(base + lanes.x[i] * lanes.x[i]);
}

template <int N>
inline F32x16 sum_of_weights(const Lanes<N>& lanes) {
  F32x16 sum = {};
  for (const F32x16& w : lanes.w) sum += w;
  return sum;
}

/// The codes of fitted sub-blocks, relative to the largest scales: ls = rint(scale_top / max a * a), likewise for m.
template <int N>
inline void compat_code_by_largest(const Lanes<N>& lanes, const AffineFit& fit, float top, float scale_top,
                                   Coded<N>& coded) {
  const auto code = [&](F32x16 v, F32x16& codes, uint16_t(&d)[N / 16]) {
    float largest[N / 16], inverse[N / 16];
    max_lanes<N>(v, largest);
    for (int super = 0; super < Lanes<N>::kSupers; ++super) {
      inverse[super] = largest[super] > 0.0f ? scale_top / largest[super] : 0.0f;
      d[super] = finite_f16(largest[super] / scale_top * lanes.unit[super]);
    }
    codes = code_of(spread<N>(inverse) * v, scale_top);
  };
  code(fit.a, coded.ls, coded.d);
  code(fit.m, coded.lm, coded.dmin);
  recode(lanes, 0.0f, top, coded);
}

/// Likewise, by POS with the sub-blocks' sums of weights.
template <int N>
inline void compat_code_by_weight(const Lanes<N>& lanes, const AffineFit& fit, float top, float scale_top,
                                  Coded<N>& coded) {
  constexpr int kSubs = Lanes<N>::kSubs;
  float weights[kLanes];
  store(sum_of_weights(lanes), weights);
  const auto code = [&](F32x16 v, F32x16& codes, uint16_t(&d)[N / 16]) {
    float values[kLanes];
    store(v, values);
    for (int super = 0; super < Lanes<N>::kSupers; ++super) {
      const CodedScales<kSubs> scales =
          compat_positive<kSubs>(values + super * kSubs, weights + super * kSubs, scale_top);
      d[super] = finite_f16(scales.d * lanes.unit[super]);
      for (int b = 0; b < kSubs; ++b) codes[super * kSubs + b] = scales.codes[b];
    }
  };
  code(fit.a, coded.ls, coded.d);
  code(fit.m, coded.lm, coded.dmin);
  recode(lanes, 0.0f, top, coded);
}

/// Codes low..-low-1 of sub-blocks with signed scales. The scale of largest magnitude becomes scale_low.
inline void compat_code_by_largest(const Lanes<16>& lanes, F32x16 scales, float low, float scale_low,
                                   Coded<16>& coded) {
  float extreme = 0.0f;
  for (int lane = 0; lane < kLanes; ++lane)
    extreme = __builtin_fabsf(scales[lane]) > __builtin_fabsf(extreme) ? scales[lane] : extreme;
  const bool zeros = __builtin_fabsf(extreme) < 1e-15f;
  const float inverse = zeros ? 0.0f : scale_low / extreme;
  coded.d[0] = zeros ? uint16_t{0} : finite_f16(1.0f / inverse * lanes.unit[0]);
  coded.dmin[0] = 0;
  coded.ls = code_of(inverse * scales, scale_low, -scale_low - 1.0f);
  coded.lm = F32x16{};
  recode(lanes, low, -low - 1.0f, coded);
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
