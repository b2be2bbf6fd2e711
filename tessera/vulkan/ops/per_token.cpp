// Small operations: temperature, add_scaled, sum_squares.
#include <algorithm>
#include <cstdint>

#include "tessera/vulkan/ops/dispatch.h"

namespace tessera::vulkan {

namespace {

Result<> prepare_temperature(const StepContext& context, Step& step) {
  const auto& params = std::get<TemperatureParams>(context.node.params);
  step.shader = Shader::per_token;
  step.variant = 0;
  step.params.u[0] = bits(params.beta);
  step.params.u[1] = count(std::min<int64_t>(params.length, INT32_MAX));
  return set_groups(step, context.spec(0).shape()[0], context.n_lanes);
}

Result<> prepare_sum_squares(const StepContext& context, Step& step) {
  step.shader = Shader::per_token;
  step.variant = 1;
  return set_groups(step, context.shape()[0], context.n_lanes);
}

Result<> prepare_add_scaled(const StepContext& context, Step& step) {
  const auto& params = std::get<AddScaledParams>(context.node.params);
  step.shader = Shader::add_scaled;
  step.params.u[0] = bits(params.factor);
  step.params.u[1] = count(params.n_experts);
  return set_groups(step, context.shape()[1]);
}

}  // namespace

extern const OpKernel kTemperature, kSumSquares, kAddScaled;
const OpKernel kTemperature{.supports = nullptr, .prepare = prepare_temperature};
const OpKernel kSumSquares{.supports = nullptr, .prepare = prepare_sum_squares};
const OpKernel kAddScaled{.supports = nullptr, .prepare = prepare_add_scaled};

}  // namespace tessera::vulkan
