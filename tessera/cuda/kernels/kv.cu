// kv_store (variant 0) and kv_load (1): copy rows into and out of the cells of a cache, in which the rows of
// consecutive tokens are adjacent. A block copies several rows; a thread copies 16 bytes, a word if the rows are not
// aligned to that, or encodes 32 elements.
//   format: of the cache; format2: of the rows (store); u[0]: bytes of a cache row
#include "tessera/cuda/kernels/kv.cuh"

namespace tessera::cuda {

TESSERA_BATCH_KERNEL(kv, 128) {
  const uint32_t row = short_row(step);
  const Operand& cache = step.x[0];
  const uint32_t n_heads = cache.ne[2], token = row / n_heads, head = row - token * n_heads;
  allow_next();
  wait_for_previous();
  if (row >= step.n_groups) return;
  if (step.variant == 0) {
    const int32_t cell = ints(step.x[2].data)[token];
    return store_row(step, cache, cell, head, row_of(step.x[1], head, token, 0), step.u[0]);
  }
  const int32_t cell = ints(step.x[1].data)[token];
  if (has_cell(step, cache, cell))
    copy_row(row_of_cell(cache, static_cast<uint32_t>(cell), head), row_of(step.y, head, token, 0), step.u[0]);
}

}  // namespace tessera::cuda
