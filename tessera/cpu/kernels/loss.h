// Kernels of losses (graph/ops/loss.h). Plain declarations only.
#pragma once

#include <stdint.h>

namespace tessera::cpu {

/// For a row of logits: the largest logit, the sum of e^(x - largest) over all tokens but the target, and this value
/// for the target.
struct ExpSums {
  float largest;
  double others;
  float target;
};

struct LossKernels {
  /// 0 <= target < n.
  ExpSums (*exp_sums)(const float* x, int64_t n, int64_t target);
  /// e^(x - largest) * factor; `out` may be x.
  void (*scaled_exp)(const float* x, float largest, float factor, int64_t n, float* out);
};

}  // namespace tessera::cpu
