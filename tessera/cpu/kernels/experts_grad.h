// Kernels of the gradients of a mixture of experts: their part of the table in kernels.h. Plain declarations only.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tessera::cpu {

/// The maximum number of columns of x per task.
inline constexpr int kOuterColumns = 64;

/// out[j][i] = sum over rows r of x_rows[r][i] * y_rows[r][j]: one chain per output, rows ascending.
struct OuterTask {
  const float* const* x_rows;
  const float* const* y_rows;
  int64_t n_rows;
  int n_x;  // 1 to kOuterColumns
  int64_t n_y;
  float* out;          // n_x floats for each column of y
  int64_t out_stride;  // in floats
};

struct ExpertsGradKernels {
  void (*outer_product)(const OuterTask& task);
  float (*dot)(const float* a, const float* b, int64_t n);
};

}  // namespace tessera::cpu
