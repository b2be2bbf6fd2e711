// Kernels of the operations on whole rows (graph/ops/norm.h). Plain declarations only.
#pragma once

#include <stdint.h>

namespace tessera::cpu {

/// Kernels for rows of n floats. `weight` and `bias` may be null. Outputs may be the inputs.
struct NormKernels {
  void (*soft_max)(const float* x, int64_t n, float* out);
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* out);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out);
  /// x / max(|x|, eps), where |x| is the Euclidean norm.
  void (*l2_norm)(const float* x, int64_t n, float eps, float* out);
  float (*row_sum)(const float* x, int64_t n);

  // Gradients. Sums that also occur in the forward pass have the same bits as there.
  void (*soft_max_grad)(const float* y, const float* dy, int64_t n, float* out);
  void (*rms_norm_grad)(const float* x, const float* weight, const float* dy, int64_t n, float eps, float* out);
  void (*layer_norm_grad)(const float* x, const float* weight, const float* dy, int64_t n, float eps, float* out);
  void (*l2_norm_grad)(const float* x, const float* dy, int64_t n, float eps, float* out);
};

}  // namespace tessera::cpu
