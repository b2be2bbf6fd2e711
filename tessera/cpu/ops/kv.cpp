// kv_store and kv_load: copy tokens into and out of the cells of a paged cache.
#include "tessera/graph/ops/kv.h"
#include "tessera/base/index.h"

#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

static_assert(kKvBlockTokens == kBlockTokens, "the graph and the kernels agree on a block");

const KvFormat* format_of(const Kernels& kernels, DType dtype) { return kernels.kv_formats[to_size(dtype)]; }

bool supports_kv(const Kernels& kernels, const Graph& graph, const Node& node) {
  return format_of(kernels, graph[node.sources[0]].spec.dtype) != nullptr;
}

// Returns the block of one head that contains a cell, or null after reporting a fault if there is no such cell.
std::byte* block_of(const Step& step, Worker& worker, const Operand& cache, int64_t cell, int64_t head) {
  const int64_t n_cells = cache.shape()[3] * kBlockTokens;
  if (cell < 0 || cell >= n_cells) {
    worker.fault.report(step, "cell", cell, n_cells);
    return nullptr;
  }
  return cache.data + cell / kBlockTokens * cache.layout.nb[3] + head * cache.layout.nb[2];
}

void run_kv_store(const Step& step, Worker& worker) {
  const Operand &cache = step.in[0], &rows = step.in[1];
  const auto* cells = step.in[2].row<const int32_t>(0);
  const bool is_k = std::get<KvParams>(step.node->params).side == KvSide::k;
  const KvFormat& format = *format_of(worker.kernels, cache.dtype);
  const int dim = static_cast<int>(cache.shape()[0]);
  const Range share = worker.share(rows.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t head = i % rows.shape()[1], token = i / rows.shape()[1];
    const int32_t cell = cells[token];
    if (cell == -1) continue;
    std::byte* block = block_of(step, worker, cache, cell, head);
    if (block == nullptr) continue;
    const int slot = cell % kBlockTokens;
    if (rows.dtype == DType::f32)
      (is_k ? format.store_k : format.store_v)(rows.row(head, token), dim, slot, block);
    else
      (is_k ? format.store_k_row : format.store_v_row)(rows.row<const void>(head, token), dim, slot, block);
  }
}

void run_kv_load(const Step& step, Worker& worker) {
  const Operand& cache = step.in[0];
  const auto* cells = step.in[1].row<const int32_t>(0);
  const bool is_k = std::get<KvParams>(step.node->params).side == KvSide::k;
  const KvFormat& format = *format_of(worker.kernels, cache.dtype);
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t head = i % step.out.shape()[1], token = i / step.out.shape()[1];
    const std::byte* block = block_of(step, worker, cache, cells[token], head);
    if (block == nullptr) continue;
    (is_k ? format.load_k : format.load_v)(block, static_cast<int>(cache.shape()[0]), cells[token] % kBlockTokens,
                                           step.out.row<void>(head, token));
  }
}

}  // namespace

const OpKernel op_kernels::kv_store{.supports = supports_kv, .run = run_kv_store};
const OpKernel op_kernels::kv_load{.supports = supports_kv, .run = run_kv_load};

}  // namespace tessera::cpu
