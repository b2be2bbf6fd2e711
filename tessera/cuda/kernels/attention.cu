// The kernels of attention: attention_flash.cuh and attention_precise.cuh say which operands they have.
#include "tessera/cuda/kernels/attention_flash.cuh"
#include "tessera/cuda/kernels/attention_precise.cuh"

namespace tessera::cuda {

// The second bound is the number of blocks that have to fit a multiprocessor at the same time. Without it the compiler
// aims at more, and spills registers.
#define TESSERA_BOUNDS(n_threads, n_blocks) n_threads, n_blocks
#define TESSERA_FLASH(dim, n_blocks)                                                                     \
  TESSERA_KERNEL(attention_flash_##dim, TESSERA_BOUNDS(flash_shape(dim).n_threads(), n_blocks)) {        \
    allow_next();                                                                                        \
    wait_for_previous();                                                                                 \
    const uint32_t group = group_of(step);                                                               \
    if (group < step.n_groups) flash_tile<flash_shape(dim)>(step, group);                                \
  }                                                                                                      \
  TESSERA_KERNEL(attention_few_##dim, TESSERA_BOUNDS(few_shape(dim).n_threads(), (dim) <= 64 ? 4 : 2)) { \
    allow_next();                                                                                        \
    wait_for_previous();                                                                                 \
    const uint32_t group = group_of(step);                                                               \
    if (group < step.n_groups) flash_few<few_shape(dim)>(step, group);                                   \
  }
TESSERA_FLASH(64, 2)
TESSERA_FLASH(96, 1)
TESSERA_FLASH(128, 1)
TESSERA_FLASH(256, 1)
#undef TESSERA_FLASH
#undef TESSERA_BOUNDS

TESSERA_KERNEL(attention_precise, kPreciseThreads) {
  allow_next();
  wait_for_previous();
  const uint32_t group = group_of(step);
  if (group >= step.n_groups) return;
  __shared__ PreciseRoom room;
  const uint32_t n_heads = step.x[0].ne[1], n_splits = step.u[6];
  const bool is_one_split = (step.variant & 1) != 0;
  const uint32_t item = is_one_split ? group / n_splits : group;
  Precise precise(step, room, item % n_heads, item / n_heads);
  if (is_one_split)
    precise.run_split(group, group % n_splits);
  else
    precise.run_all();
}

TESSERA_KERNEL(attention_precise_merge, 128) {
  allow_next();
  wait_for_previous();
  const uint32_t group = group_of(step);
  if (group < step.n_groups) merge_splits(step, group);
}

}  // namespace tessera::cuda
