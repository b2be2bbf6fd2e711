// Operations that depend on positions. Rotary position embedding (Su et al. 2021) consists of two steps: rope_table
// computes the cosines and sines of a batch's positions once, and rope applies them in every layer.
#pragma once

#include <cstdint>

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

/// The elements of a pair: adjacent (2i, 2i + 1), or from both halves (i, i + n_rot/2).
enum class RopePairs : uint8_t { adjacent, halves };

/// The angle of pair i at position p is p * base^(-2i/n_rot) / factor_i, times freq_scale (linear scaling). With YaRN
/// (Peng et al. 2023), interpolated and extrapolated angles are mixed by a ramp over i.
struct RopeTableParams {
  int64_t n_rot = 0;
  float freq_base = 10000.0f;
  float freq_scale = 1.0f;
  float yarn_ext = 0.0f;   // 0: no YaRN; 1: fully mixed
  float yarn_low = 0.0f;   // pairs up to this one extrapolate
  float yarn_high = 0.0f;  // pairs from this one on interpolate
  float magnitude = 1.0f;  // factor of cosines and sines
  void list(ParamList& params) const;
};

struct RopeParams {
  RopePairs pairs = RopePairs::adjacent;
  bool inverse = false;  // rotate by the opposite angles, as in the gradient
  void list(ParamList& params) const {
    params.integer("halves", pairs == RopePairs::halves);
    params.integer("inverse", inverse);
  }
};

/// A factor of attention scores that grows with the position (Llama 4).
struct TemperatureParams {
  float beta = 0.0f;
  int64_t length = 1;  // number of positions per step
  int64_t offset = 0;  // added to positions
  void list(ParamList& params) const {
    params.number("beta", beta);
    params.integer("length", length);
    if (offset != 0) params.integer("offset", offset);  // plugins of before know no offset
  }
};

/// The part of GraphBuilder that adds operations on positions.
class RopeOps {
 public:
  /// 1 + beta * ln(1 + floor((position + offset) / length)) for positions i32 [n_tokens]: [1, 1, n_tokens].
  Value temperature(Value positions, const TemperatureParams& params);
  /// Cosines and sines [n_rot, n_tokens] (pairs) for positions i32 [n_tokens]. freq_factors [n_rot / 2] or absent.
  Value rope_table(Value positions, Value freq_factors, const RopeTableParams& params);
  /// Rotates the first n_rot elements of each row of x [dim, n_heads, n_tokens]. inverse: by the opposite angles.
  Value rope(Value x, Value table, RopePairs pairs, bool inverse = false);
};

}  // namespace tessera
