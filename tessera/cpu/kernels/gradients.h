// What the kernels of one instruction set offer for training: gradients of activations, norms and the loss, steps of an
// optimizer. Their part of the table in kernels.h. Plain declarations only.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tessera::cpu {

/// Of a row of logits: the largest, and the sums of e^(x - largest) over all but the target, and of the target.
struct ExpSums {
  float largest;
  double others;
  float target;
};

/// The numbers of a step of Adam, as graph/ops/optimizer.h names them.
struct AdamNumbers {
  float gradient_scale, beta1, beta2, epsilon, correction1, correction2;
};

struct GradientKernels {
  // Rows of n floats; outputs may be the inputs themselves. Exponentials, and sums that the forward pass has too, are
  // the same bits as there.
  void (*silu_grad)(const float* x, const float* dy, int64_t n, float* out);
  void (*gelu_grad)(const float* x, const float* dy, int64_t n, float* out);
  void (*clamp_grad)(const float* x, const float* dy, float min, float max, int64_t n, float* out);
  void (*soft_max_grad)(const float* y, const float* dy, int64_t n, float* out);
  void (*rms_norm_grad)(const float* x, const float* weight /* or null */, const float* dy, int64_t n, float eps,
                        float* out);
  void (*layer_norm_grad)(const float* x, const float* weight /* or null */, const float* dy, int64_t n, float eps,
                          float* out);
  void (*l2_norm_grad)(const float* x, const float* dy, int64_t n, float eps, float* out);

  /// 0 <= target < n.
  ExpSums (*exp_sums)(const float* x, int64_t n, int64_t target);
  /// e^(x - largest) * factor
  void (*scaled_exp)(const float* x, float largest, float factor, int64_t n, float* out);

  /// m = beta * m + scale * g
  void (*momentum)(float* m, const float* g, float beta, float scale, int64_t n);
  /// Moves the moments and gives the direction.
  void (*adam)(float* m, float* v, const float* g, const AdamNumbers& numbers, int64_t n, float* out);
  /// w -= rate * (direction + decay * w)
  void (*descend)(float* w, const float* direction, float rate, float decay, int64_t n);

  /// out[i * out_stride + row] = x[row * x_stride + i] for n_rows rows of n; strides count floats.
  void (*transpose)(const float* x, int64_t x_stride, int64_t n, int64_t n_rows, float* out, int64_t out_stride);
};

}  // namespace tessera::cpu
