// kv_store and kv_load: one workgroup per row, which is a head of a token.
#include "tessera/gpu/ops/dispatch.h"

namespace tessera::gpu {

namespace {

constexpr size_t kHalf = 2;  // bytes; the unit that shaders read and write if a row begins within a word

bool supports_kv(const Graph& graph, const Node& node) {
  if (!info(graph[node.sources[0]].spec.dtype).is_kv_format) return false;
  if (node.op == Op::kv_load) return true;
  const Layout& rows = graph[node.sources[1]].spec.layout;
  return rows.nb[1] % int64_t{kHalf} == 0 && rows.nb[2] % int64_t{kHalf} == 0 &&
         graph.storage_offset(node.sources[1]) % kHalf == 0;
}

Result<> prepare_kv(const StepContext& context, Step& step) {
  const TensorSpec& cache = context.spec(0);
  const bool stores = context.node.op == Op::kv_store;
  step.shader = Shader::kv;
  step.variant = stores ? 0 : 1;
  step.format = cache.dtype;
  step.format2 = stores ? context.spec(1).dtype : cache.dtype;
  TESSERA_ASSIGN(const size_t bytes, row_bytes(cache.dtype, cache.shape()[0]));
  step.params.u[0] = static_cast<uint32_t>(bytes);
  return set_groups(step, stores ? context.spec(1).shape().n_rows() : context.shape().n_rows());
}

}  // namespace

const OpKernel op_kernels::kv_store{.supports = supports_kv, .prepare = prepare_kv};
const OpKernel op_kernels::kv_load{.supports = supports_kv, .prepare = prepare_kv};

}  // namespace tessera::gpu
