#include "tessera/gpu/ops/experts.h"

#include "tessera/gpu/ops/dispatch.h"
#include "tessera/graph/ops/experts.h"

namespace tessera::gpu {

namespace {

void choose(Step& step, ExpertOp op) {
  step.shader = Shader::experts;
  step.variant = static_cast<uint32_t>(op);
}

// One invocation per token.
Result<> by_token(const StepContext& context, Step& step) {
  return set_groups(step, context.shape()[1], context.n_lanes);
}

Result<> prepare_top_k(const StepContext& context, Step& step) {
  choose(step, ExpertOp::top_k);
  step.params.u[0] = count(context.shape()[0]);
  step.params.u[1] = count(std::get<TopKParams>(context.node.params).divisor);
  return by_token(context, step);
}

Result<> prepare_top_groups(const StepContext& context, Step& step) {
  const auto& params = std::get<TopGroupsParams>(context.node.params);
  choose(step, ExpertOp::top_groups);
  step.params.u[0] = count(params.n_groups);
  step.params.u[1] = count(params.n_used);
  return by_token(context, step);
}

Result<> prepare_expert_weights(const StepContext& context, Step& step) {
  const auto& params = std::get<ExpertWeightsParams>(context.node.params);
  choose(step, ExpertOp::expert_weights);
  step.params.u[0] = params.normalize ? 1 : 0;
  step.params.u[1] = bits(params.scale);
  return by_token(context, step);
}

Result<> prepare_expert_routes(const StepContext& context, Step& step) {
  choose(step, ExpertOp::expert_routes);
  step.params.u[0] = count(std::get<ExpertRoutesParams>(context.node.params).n_experts);
  return set_groups(step, 1);
}

Result<> prepare_expert_rows(const StepContext& context, Step& step) {
  choose(step, ExpertOp::expert_rows);
  return set_groups(step, context.shape()[1]);
}

// Weights are absent only in gradients, which this backend does not support.
bool has_weights(const Graph&, const Node& node) { return node.sources[1] != kNoNode; }

Result<> prepare_expert_sum(const StepContext& context, Step& step) {
  choose(step, ExpertOp::expert_sum);
  step.params.u[0] = count(std::get<ExpertRoutesParams>(context.node.params).n_experts);
  return set_groups(step, context.shape()[1]);
}

Result<> prepare_expert_spread(const StepContext& context, Step& step) {
  choose(step, ExpertOp::expert_spread);
  step.params.u[0] = count(std::get<ExpertRoutesParams>(context.node.params).n_experts);
  return set_groups(step, context.spec(0).shape()[1]);
}

}  // namespace

const OpKernel op_kernels::top_groups{.prepare = prepare_top_groups};
const OpKernel op_kernels::top_k{.prepare = prepare_top_k};
const OpKernel op_kernels::expert_weights{.prepare = prepare_expert_weights};
const OpKernel op_kernels::expert_routes{.prepare = prepare_expert_routes};
const OpKernel op_kernels::expert_rows{.prepare = prepare_expert_rows};
const OpKernel op_kernels::expert_sum{.supports = has_weights, .prepare = prepare_expert_sum};
const OpKernel op_kernels::expert_spread{.supports = has_weights, .prepare = prepare_expert_spread};
const OpKernel op_kernels::mul_mat_experts{.own = OwnKernel::product};

}  // namespace tessera::gpu
