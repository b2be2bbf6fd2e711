// Norms and softmax of each row, and sums along one dimension, all f32.
#pragma once

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

struct NormParams {
  float eps = 0.0f;
  void list(ParamList& params) const { params.number("eps", eps); }
};

/// The part of GraphBuilder that adds norms and sums.
class NormOps {
 public:
  /// Softmax of each row.
  Value soft_max(Value x);
  /// x / sqrt(mean(x^2) + eps) * weight, per row (Zhang and Sennrich 2019). weight [n], or absent for 1.
  Value rms_norm(Value x, Value weight, float eps);
  /// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias, per row (Ba et al. 2016). weight [n] and bias
  /// [n], or absent for 1 and 0.
  Value layer_norm(Value x, Value weight, Value bias, float eps);
  /// x / max(|x|, eps), per row.
  Value l2_norm(Value x, float eps);
  /// The sum of each row: [1, ...].
  Value row_sum(Value x);
  /// Sum over all rows of x^2, separately for each column: [n]. The sums are computed in f32 in row order.
  Value sum_squares(Value x);
  /// The gradient with respect to x of soft_max(x) = y, and of the norms above.
  Value soft_max_grad(Value y, Value dy);
  Value rms_norm_grad(Value x, Value weight, Value dy, float eps);
  Value layer_norm_grad(Value x, Value weight, Value dy, float eps);
  Value l2_norm_grad(Value x, Value dy, float eps);
};

}  // namespace tessera
