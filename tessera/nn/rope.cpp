#include "tessera/nn/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera::nn {

namespace {

// The (fractional) pair index whose wave turns `turns` times within the original context.
double pair_of_turns(const RopeConfig& c, double turns) {
  const double context = static_cast<double>(c.original_context);
  return static_cast<double>(c.n_rot) * std::log(context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(c.freq_base));
}

}  // namespace

Result<RopeScaling> rope_scaling_from_name(std::string_view name) {
  if (name == "none") return RopeScaling::none;
  if (name == "linear") return RopeScaling::linear;
  if (name == "yarn") return RopeScaling::yarn;
  return fail(ErrorCode::unsupported, "rope scaling '{}' (known: none, linear, yarn)", name);
}

RopeTableParams rope_table_params(const RopeConfig& c) {
  RopeTableParams params{.n_rot = c.n_rot, .freq_base = c.freq_base, .magnitude = c.attn_factor};
  if (c.scaling == RopeScaling::none) return params;
  params.freq_scale = 1.0f / c.factor;
  params.yarn_ext = c.yarn_ext >= 0 ? c.yarn_ext : c.scaling == RopeScaling::yarn ? 1.0f : 0.0f;
  if (params.yarn_ext == 0) return params;
  params.yarn_low = static_cast<float>(std::max(0.0, std::floor(pair_of_turns(c, c.yarn_beta_fast))));
  params.yarn_high = static_cast<float>(
      std::clamp(std::ceil(pair_of_turns(c, c.yarn_beta_slow)), 0.0, static_cast<double>(c.n_rot - 1)));
  params.magnitude *= 1.0f + 0.1f * std::log(c.factor);
  return params;
}

}  // namespace tessera::nn
