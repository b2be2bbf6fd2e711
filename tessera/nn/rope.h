// Rope parameters of a model, from its hyperparameters.
#pragma once

#include <string_view>

#include "tessera/graph/builder.h"

namespace tessera::nn {

enum class RopeScaling : uint8_t { none, linear, yarn };

/// "none", "linear" or "yarn". Errors: unsupported, naming what is known.
Result<RopeScaling> rope_scaling_from_name(std::string_view name);

struct RopeConfig {
  RopePairs pairs = RopePairs::adjacent;
  int64_t n_rot = 0;
  float freq_base = 10000.0f;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.0f;           // the context is stretched by this; positions are divided by it
  int64_t original_context = 0;  // tokens the model was trained on (YaRN)
  float attn_factor = 1.0f;
  float yarn_ext = -1.0f;        // share of extrapolation; < 0: 1 for YaRN, else 0
  float yarn_beta_fast = 32.0f;  // pairs that turn more often than this within the original context extrapolate,
  float yarn_beta_slow = 1.0f;   // pairs that turn less often interpolate
};

/// The operation's parameters. YaRN (Peng et al. 2023): pair i turns c(i) times within the original context; the
/// ramp runs between the pairs for beta_fast and beta_slow, and the magnitude grows by 1 + 0.1 ln(factor).
RopeTableParams rope_table_params(const RopeConfig& config);

}  // namespace tessera::nn
