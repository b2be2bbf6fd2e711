// The two passes of a softmax over a row of logits, compiled once per instruction set. sample/log_probs.cpp picks one.
// All sets give the same bits: lanes and sums have one order, and no operation is fused.
#pragma once

#include <stddef.h>

namespace tessera::sample {

struct SoftmaxKernels {
  /// The greatest of n floats; -infinity for none; NaN if one is NaN.
  float (*greatest)(const float* x, size_t n);
  /// The sum of exp(x[i] - shift) for x[i] <= shift, both finite or x[i] -infinity. The relative error is below 2e-6.
  double (*sum_of_exp)(const float* x, size_t n, float shift);
};

}  // namespace tessera::sample
