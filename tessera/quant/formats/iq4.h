// The sixteen levels of iq4_nl and iq4_xs, and ggml's search for the scale of 32 elements (design sheet "quantizers",
// section 2.5).
#pragma once

#include "tessera/quant/formats/scale_search.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr int8_t kIQ4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Levels for scale_search.h. A value half way between two levels rounds to the upper one. Fifteen comparisons find a
/// level, because not every instruction set can look up a table by lanes.
struct IQ4Levels {
  static constexpr Targets<20> kTargets = [] {
    Targets<20> targets = {};
    for (int k = 0; k < 10; ++k) {
      targets.values[2 * k] = -127.0f + 5.0f * static_cast<float>(k - 4);
      targets.values[2 * k + 1] = 113.0f + 5.0f * static_cast<float>(k - 4);
    }
    return targets;
  }();
  static constexpr int kRefits = 1;

  [[gnu::always_inline]] static F32x16 nearest(F32x16 v) {
    F32x16 level = broadcast(kIQ4Levels[0]);
#pragma GCC unroll 15
    for (int k = 0; k < 15; ++k) {
      const auto step = static_cast<float>(kIQ4Levels[k + 1] - kIQ4Levels[k]);
      level += from_bits((v >= middle(k)) & bits_of(broadcast(step)));
    }
    return level;
  }
  [[gnu::always_inline]] static I32x16 nearest_code(F32x16 v) {
    I32x16 code = {};
#pragma GCC unroll 15
    for (int k = 0; k < 15; ++k) code -= v >= middle(k);
    return code;
  }

 private:
  static constexpr float middle(int k) { return 0.5f * static_cast<float>(kIQ4Levels[k] + kIQ4Levels[k + 1]); }
};

/// ggml's scale before rounding; 0 for blocks of zeros.
inline F32x16 compat_iq4_scale(const Group<32>& group) {
  const F32x16 extreme = extreme_value(group.x);
  F32x16 best = {}, d = {};
  for (int k = 0; k < 16; ++k) {
    const float target = k == 0 ? 127.0f : static_cast<float>(k - 8) - 127.0f;
    const Products sum = products_at<IQ4Levels>(group, target / extreme);
    const I32x16 better = k == 0 ? broadcast_i32(-1) : (sum.ll > 0.0f) & (sum.xl * sum.xl > best * sum.ll);
    const F32x16 fit = select(sum.ll > 0.0f, sum.xl / sum.ll, F32x16{});
    d = select(better, fit, d);
    best = select(better, fit * sum.xl, best);
  }
  return select(abs(extreme) < 1e-15f, F32x16{}, d);
}

/// Fills the weights of ggml's search: x^2, or importance * sqrt(variance + x^2).
inline void load_compat_iq4_group(const float* x, const float* importance, int n_blocks, F32x16 variance,
                                  Group<32>& group) {
  load_blocks(x, n_blocks, group.x);
  if (importance != nullptr) load_blocks(importance, n_blocks, group.w);
  for (int i = 0; i < 32; ++i) {
    const F32x16 square = group.x[i] * group.x[i];
    group.w[i] = importance == nullptr ? square : group.w[i] * square_root(variance + square);
    group.wx[i] = group.w[i] * group.x[i];
  }
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
