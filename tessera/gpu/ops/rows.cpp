// get_rows and cast: convert rows of any type to floats, and floats to rows. get_rows also copies rows of integers.
#include "tessera/gpu/ops/dispatch.h"

namespace tessera::gpu {

namespace {

bool supports_get_rows(const Graph& graph, const Node& node) {
  const DType dtype = graph[node.sources[0]].spec.dtype;
  return dtype == DType::i32 || info(dtype).is_format;
}

Result<> prepare_get_rows(const StepContext& context, Step& step) {
  step.shader = Shader::rows;
  const DType dtype = context.spec(0).dtype;
  step.format = dtype == DType::i32 ? DType::f32 : dtype;  // reading and writing a float keeps its bits
  return set_groups(step, context.shape().n_rows());
}

bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

bool supports_cast(const Graph& graph, const Node& node) {
  const DType from = graph[node.sources[0]].spec.dtype, to = node.spec.dtype;
  return to == DType::f32 ? info(from).is_format : from == DType::f32 && is_narrow(to);
}

Result<> prepare_cast(const StepContext& context, Step& step) {
  if (context.node.spec.dtype == DType::f32) return prepare_get_rows(context, step);
  step.shader = Shader::rows_narrow;
  step.format = context.node.spec.dtype;
  return set_groups(step, context.shape().n_elements(), 2 * int64_t{context.n_lanes});
}

Result<> prepare_add_scaled(const StepContext& context, Step& step) {
  const auto& params = std::get<AddScaledParams>(context.node.params);
  step.shader = Shader::rows_add_scaled;
  step.params.u[0] = bits(params.factor);
  step.params.u[1] = count(params.n_experts);
  return set_groups(step, context.shape()[1]);
}

}  // namespace

const OpKernel op_kernels::get_rows{.supports = supports_get_rows, .prepare = prepare_get_rows};
const OpKernel op_kernels::cast{.supports = supports_cast, .prepare = prepare_cast};
const OpKernel op_kernels::add_scaled{.prepare = prepare_add_scaled};

}  // namespace tessera::gpu
