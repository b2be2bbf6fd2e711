// Rope parameters of a model, from its hyperparameters.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/graph/builder.h"

namespace tessera::nn {

enum class RopeScaling : uint8_t { none, linear, yarn, longrope };

/// "none", "linear", "yarn" or "longrope". Errors: unsupported, naming what is known.
Result<RopeScaling> rope_scaling_from_name(std::string_view name);

struct RopeConfig {
  RopePairs pairs = RopePairs::adjacent;
  int64_t n_rot = 0;
  float freq_base = 10000.0f;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.0f;           // the context is stretched by this; positions are divided by it
  int64_t original_context = 0;  // tokens the model was trained on (YaRN, longrope)
  float attn_factor = 1.0f;
  float yarn_ext = -1.0f;            // share of extrapolation; < 0: 1 for YaRN, else 0
  float yarn_beta_fast = 32.0f;      // pairs that turn more often than this within the original context extrapolate,
  float yarn_beta_slow = 1.0f;       // pairs that turn less often interpolate
  float yarn_log_multiplier = 0.0f;  // the magnitude is divided by 1 + 0.1 * this * ln(factor)

  bool operator==(const RopeConfig&) const = default;
};

/// The operation's parameters. YaRN (Peng et al. 2023): pair i turns c(i) times within the original context; the
/// ramp runs between the pairs for beta_fast and beta_slow, and the magnitude grows by 1 + 0.1 ln(factor).
RopeTableParams rope_table_params(const RopeConfig& config);

/// One of the rotations that a model's layers use.
struct Rope {
  RopeConfig config;
  const Tensor* factors = nullptr;       // per-pair divisors of the angles [n_rot / 2], or null
  const Tensor* long_factors = nullptr;  // those for contexts above config.original_context, or null: factors

  /// Longrope's choice is by the context a session is made for, not by positions: K in the cache stays as it was. As
  /// users of llama.cpp know it, contexts count in steps of 256 tokens.
  const Tensor* factors_for(int64_t n_ctx) const {
    return long_factors != nullptr && round_up<int64_t>(n_ctx, 256) > config.original_context ? long_factors : factors;
  }
};

/// No rotation, where an index into a model's ropes stands.
inline constexpr int kNoRope = -1;

/// Cosines and sines of `positions` for a session of n_ctx tokens per sequence. magnitude: whether they are multiplied
/// by the rope's, which K in the cache carries already.
enum class RopeMagnitude : uint8_t { applied, left_out };
Value rope_table(GraphBuilder& b, Value positions, const Rope& rope, int64_t n_ctx, RopeMagnitude magnitude);

}  // namespace tessera::nn
