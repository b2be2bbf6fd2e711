// rope and its table. The angles per position are computed here in double precision and passed to the shader as
// fractions of a turn.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "tessera/base/index.h"
#include "tessera/gpu/ops/dispatch.h"

namespace tessera::gpu {

namespace {

// The ramp of YaRN (Peng et al. 2023) decreases from 1 at yarn_low to 0 at yarn_high.
double angle_per_position(const RopeTableParams& p, int64_t i, float factor) {
  const double original =
      std::pow(double{p.freq_base}, -2.0 * static_cast<double>(i) / static_cast<double>(p.n_rot)) / factor;
  const double stretched = original * p.freq_scale;
  if (p.yarn_ext == 0) return stretched;
  const double span = std::max(0.001, double{p.yarn_high} - p.yarn_low);
  const double mix = p.yarn_ext * (1.0 - std::clamp((static_cast<double>(i) - p.yarn_low) / span, 0.0, 1.0));
  return stretched * (1.0 - mix) + original * mix;
}

// Returns the fraction of a turn in units of 2^-64. Whole turns have no effect, since positions are integers. Angles
// that are not finite give 0.
uint64_t turns_of(double angle) {
  const double turns = angle / (2 * std::numbers::pi), fraction = turns - std::floor(turns);
  return fraction > 0 && fraction < 1 ? static_cast<uint64_t>(std::ldexp(fraction, 64)) : 0;
}

// Frequency factors are weights, which are read when the graph is compiled.
bool supports_rope_table(const Graph& graph, const Node& node) {
  return node.n_sources < 2 || node.sources[1] == kNoNode || graph[graph.storage(node.sources[1])].op == Op::tensor;
}

Result<> prepare_rope_table(const StepContext& context, Step& step) {
  const auto& params = std::get<RopeTableParams>(context.node.params);
  std::vector<float> factors(to_size(params.n_rot / 2), 1.0f);
  if (context.has(1) && context.tensor(1).buffer != nullptr) {  // null: only the size is computed
    const Tensor& tensor = context.tensor(1);
    TESSERA_TRY(tensor.buffer->get(tensor, 0, std::as_writable_bytes(std::span(factors))));
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    const uint64_t turns = turns_of(angle_per_position(params, static_cast<int64_t>(i), factors[i]));
    step.extra.push_back(static_cast<uint32_t>(turns));
    step.extra.push_back(static_cast<uint32_t>(turns >> 32));
  }
  step.shader = Shader::rope;
  step.variant = 1;
  step.params.u[0] = bits(params.magnitude);
  return set_groups(step, context.shape()[1]);
}

Result<> prepare_rope(const StepContext& context, Step& step) {
  const auto& params = std::get<RopeParams>(context.node.params);
  step.shader = Shader::rope;
  step.variant = 0;
  step.params.u[0] = params.pairs == RopePairs::halves ? 1 : 0;
  step.params.u[1] = params.inverse ? 1 : 0;
  return set_groups(step, context.shape().n_rows());
}

Result<> prepare_temperature(const StepContext& context, Step& step) {
  const auto& params = std::get<TemperatureParams>(context.node.params);
  step.shader = Shader::rope_temperature;
  step.params.u[0] = bits(params.beta);
  step.params.u[1] = count(std::min<int64_t>(params.length, INT32_MAX));
  step.params.u[2] = count(params.offset);
  return set_groups(step, context.spec(0).shape()[0], context.n_lanes);
}

}  // namespace

const OpKernel op_kernels::rope_table{.supports = supports_rope_table, .prepare = prepare_rope_table};
const OpKernel op_kernels::rope{.prepare = prepare_rope};
const OpKernel op_kernels::temperature{.prepare = prepare_temperature};

}  // namespace tessera::gpu
