// concat: each row of x[0] followed by the row of x[1], one block per row.
#include "tessera/cuda/kernels/device.cuh"

namespace tessera::cuda {

TESSERA_KERNEL(shape, 128) {
  allow_next();
  wait_for_previous();
  const uint32_t row = group_of(step);
  if (row >= step.n_groups) return;
  const uint32_t *a = words(nth_row(step.x[0], row)), *b = words(nth_row(step.x[1], row));
  uint32_t* y = words(nth_row(step.y, row));
  const uint32_t n = step.x[0].ne[0];
  for (uint32_t i = lane(); i < step.y.ne[0]; i += n_lanes()) y[i] = i < n ? a[i] : b[i - n];
}

}  // namespace tessera::cuda
