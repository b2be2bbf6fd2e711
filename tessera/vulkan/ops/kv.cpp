// kv_store and kv_load: a workgroup takes a row of a token's head.
#include "tessera/vulkan/ops/dispatch.h"

namespace tessera::vulkan {

namespace {

constexpr size_t kWord = sizeof(uint32_t);

bool supports_kv(const Graph& graph, const Node& node) {
  const TensorSpec& cache = graph[node.sources[0]].spec;
  if (cache.dtype != DType::f32 && cache.dtype != DType::f16 && cache.dtype != DType::bf16) return false;
  const auto bytes = row_bytes(cache.dtype, cache.shape()[0]);
  if (!bytes || *bytes % kWord != 0) return false;
  if (node.op == Op::kv_load) return true;
  const Layout& rows = graph[node.sources[1]].spec.layout;  // of 16-bit rows too, whole words are read
  return rows.nb[1] % int64_t{kWord} == 0 && rows.nb[2] % int64_t{kWord} == 0 &&
         graph.storage_offset(node.sources[1]) % kWord == 0;
}

Result<> prepare_kv(const StepContext& context, Step& step) {
  const TensorSpec& cache = context.spec(0);
  const bool stores = context.node.op == Op::kv_store;
  step.shader = Shader::kv;
  step.variant = stores ? 0 : 1;
  step.format = cache.dtype;
  step.format2 = stores ? context.spec(1).dtype : cache.dtype;
  TESSERA_ASSIGN(const size_t bytes, row_bytes(cache.dtype, cache.shape()[0]));
  step.params.u[0] = static_cast<uint32_t>(bytes / kWord);
  return set_groups(step, stores ? context.spec(1).shape().n_rows() : context.shape().n_rows());
}

}  // namespace

extern const OpKernel kKvStore, kKvLoad;
const OpKernel kKvStore{.supports = supports_kv, .prepare = prepare_kv};
const OpKernel kKvLoad{.supports = supports_kv, .prepare = prepare_kv};

}  // namespace tessera::vulkan
