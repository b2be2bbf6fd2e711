// Rope parameters of a model, computed from its hyperparameters.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/graph/builder.h"

namespace tessera::nn {

enum class RopeScaling : uint8_t { none, linear, yarn, longrope };

/// Parses "none", "linear", "yarn" or "longrope". Errors: unsupported, with the known names.
Result<RopeScaling> rope_scaling_from_name(std::string_view name);

struct RopeConfig {
  RopePairs pairs = RopePairs::adjacent;
  int64_t n_rot = 0;
  float freq_base = 10000.0f;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.0f;           // the context is stretched by this factor: positions are divided by it
  int64_t original_context = 0;  // context length of the training in tokens (YaRN, longrope)
  float attn_factor = 1.0f;
  float yarn_ext = -1.0f;            // share of extrapolation; < 0: 1 for YaRN, 0 otherwise
  float yarn_beta_fast = 32.0f;      // pairs with more turns than this within the original context extrapolate
  float yarn_beta_slow = 1.0f;       // pairs with fewer turns than this interpolate
  float yarn_log_multiplier = 0.0f;  // divides the magnitude by 1 + 0.1 * this * ln(factor)

  bool operator==(const RopeConfig&) const = default;
};

/// The parameters of the operation. YaRN (Peng et al. 2023): pair i makes c(i) turns within the original context. The
/// ramp is between the pairs for beta_fast and beta_slow, and the magnitude is multiplied by 1 + 0.1 ln(factor).
RopeTableParams rope_table_params(const RopeConfig& config);

/// One of the rotations that a model's layers use.
struct Rope {
  RopeConfig config;
  const Tensor* factors = nullptr;       // per-pair divisors of the angles [n_rot / 2 or more], or null
  const Tensor* long_factors = nullptr;  // the same for contexts above config.original_context; null: factors

  /// The factors for a session with n_ctx tokens. Longrope's choice depends on the context length of the session, not
  /// on positions, because K in the cache does not change later. Context lengths count in steps of 256 tokens, as in
  /// llama.cpp.
  const Tensor* factors_for(int64_t n_ctx) const {
    return long_factors != nullptr && round_up<int64_t>(n_ctx, 256) > config.original_context ? long_factors : factors;
  }
};

/// Index that means no rotation.
inline constexpr int kNoRope = -1;

/// Computes cosines and sines of `positions` for a session of n_ctx tokens per sequence. They are multiplied by the
/// rope's magnitude unless it is left out, which is needed if K in the cache already contains it.
enum class RopeMagnitude : uint8_t { applied, left_out };
Value rope_table(GraphBuilder& b, Value positions, const Rope& rope, int64_t n_ctx, RopeMagnitude magnitude);

}  // namespace tessera::nn
