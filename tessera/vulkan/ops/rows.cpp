// get_rows, cast, concat: rows of any type to floats, and floats to rows.
#include "tessera/vulkan/ops/dispatch.h"

namespace tessera::vulkan {

namespace {

bool supports_get_rows(const Graph& graph, const Node& node) { return has_decoder(graph[node.sources[0]].spec.dtype); }

Result<> prepare_get_rows(const StepContext& context, Step& step) {
  step.shader = Shader::rows;
  step.format = context.spec(0).dtype;
  return set_groups(step, context.shape().n_rows());
}

bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

bool supports_cast(const Graph& graph, const Node& node) {
  const DType from = graph[node.sources[0]].spec.dtype, to = node.spec.dtype;
  return to == DType::f32 ? has_decoder(from) : from == DType::f32 && is_narrow(to);
}

Result<> prepare_cast(const StepContext& context, Step& step) {
  if (context.node.spec.dtype == DType::f32) return prepare_get_rows(context, step);
  step.shader = Shader::narrow;
  step.format = context.node.spec.dtype;
  return set_groups(step, context.shape().n_elements(), 2 * int64_t{context.n_lanes});
}

Result<> prepare_concat(const StepContext& context, Step& step) {
  step.shader = Shader::concat;
  return set_groups(step, context.shape().n_rows());
}

}  // namespace

extern const OpKernel kGetRows, kCast, kConcat;
const OpKernel kGetRows{.supports = supports_get_rows, .prepare = prepare_get_rows};
const OpKernel kCast{.supports = supports_cast, .prepare = prepare_cast};
const OpKernel kConcat{.supports = nullptr, .prepare = prepare_concat};

}  // namespace tessera::vulkan
