// Kernels that move elements.
#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

void transpose_rows(const float* x, int64_t x_stride, int64_t n, int64_t n_rows, float* out, int64_t out_stride) {
  for (int64_t row = 0; row < n_rows; row += kLanes) {
    const int rows = lanes_left(n_rows, row);
    for (int64_t i = 0; i < n; i += kLanes) {
      const int columns = lanes_left(n, i);
      F32x16 tile[kLanes];
      for (int r = 0; r < rows; ++r) tile[r] = load_up_to(x + (row + r) * x_stride + i, columns);
      for (int r = rows; r < kLanes; ++r) tile[r] = F32x16::zero();
      transpose(tile);
      for (int c = 0; c < columns; ++c) store_up_to(tile[c], out + (i + c) * out_stride + row, rows);
    }
  }
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
