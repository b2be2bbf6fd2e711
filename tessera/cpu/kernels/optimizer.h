// Kernels of the optimizers' steps (graph/ops/optimizer.h). Plain declarations only.
#pragma once

#include <stdint.h>

namespace tessera::cpu {

/// The coefficients of a step of Adam, with the names of graph/ops/optimizer.h.
struct AdamNumbers {
  float gradient_scale, beta1, beta2, epsilon, correction1, correction2;
};

struct OptimizerKernels {
  /// m = beta * m + scale * g
  void (*momentum)(float* m, const float* g, float beta, float scale, int64_t n);
  /// Updates the moments m and v and writes the direction to out.
  void (*adam)(float* m, float* v, const float* g, const AdamNumbers& numbers, int64_t n, float* out);
  /// w -= rate * (direction + decay * w)
  void (*descend)(float* w, const float* direction, float rate, float decay, int64_t n);
};

}  // namespace tessera::cpu
