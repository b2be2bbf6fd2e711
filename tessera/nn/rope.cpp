#include "tessera/nn/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/nn/linear.h"

namespace tessera::nn {

namespace {

// The (fractional) index of the pair that makes `turns` turns within the original context.
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
  if (name == "longrope") return RopeScaling::longrope;
  return fail(ErrorCode::unsupported, "rope scaling '{}' (known: none, linear, yarn, longrope)", name);
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
  const float log_factor = std::log(c.factor);
  params.magnitude *= (1.0f + 0.1f * log_factor) / (1.0f + 0.1f * c.yarn_log_multiplier * log_factor);
  return params;
}

Value rope_table(GraphBuilder& b, Value positions, const Rope& rope, int64_t n_ctx, RopeMagnitude magnitude) {
  RopeTableParams params = rope_table_params(rope.config);
  if (magnitude == RopeMagnitude::left_out) params.magnitude = 1.0f;
  const Tensor* tensor = rope.factors_for(n_ctx);
  if (tensor == nullptr) return b.rope_table(positions, Value(), params);
  Value factors = vector_f32(b, *tensor);
  if (tensor->shape()[0] > params.n_rot / 2) {
    Layout first = b.spec(factors).layout;
    first.shape[0] = params.n_rot / 2;
    factors = b.view(factors, first, 0);
  }
  return b.rope_table(positions, factors, params);
}

}  // namespace tessera::nn
