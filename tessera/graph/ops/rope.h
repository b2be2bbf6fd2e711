// Rotary position embedding (Su et al. 2021), in two steps: rope_table computes the cosines and sines of a
// batch's positions once, rope applies them in every layer.
#pragma once

#include <cstdint>

namespace tessera {

/// Which elements form a pair: neighbours (2i, 2i + 1), or halves (i, i + n_rot/2).
enum class RopePairs : uint8_t { adjacent, halves };

/// Angle of pair i at position p: p * base^(-2i/n_rot) / factor_i, times freq_scale (linear scaling); with YaRN
/// (Peng et al. 2023) interpolated and extrapolated angles are mixed by a ramp over i.
struct RopeTableParams {
  int64_t n_rot = 0;
  float freq_base = 10000.0f;
  float freq_scale = 1.0f;
  float yarn_ext = 0.0f;   // 0: no YaRN; 1: fully mixed
  float yarn_low = 0.0f;   // pairs up to here extrapolate,
  float yarn_high = 0.0f;  // pairs from here on interpolate
  float magnitude = 1.0f;  // cosines and sines are multiplied by this
};

struct RopeParams {
  RopePairs pairs = RopePairs::adjacent;
  bool inverse = false;  // by the opposite angles: the gradient
};

}  // namespace tessera
