// Matrix products.
#pragma once

#include "tessera/graph/value.h"

namespace tessera {

/// The suffix of the name of an observed product's output (GraphBuilder::observe_products).
inline constexpr std::string_view kObservedSuffix = ".in_sum2";

/// The part of GraphBuilder that multiplies matrices.
class MatmulOps {
 public:
  /// weights [k, n] (any dtype with a kernel) times x [k, t]: [n, t].
  Value mul_mat(Value weights, Value x);
  /// Head h of x [k, n_heads, t] times matrix h of weights [k, n, n_heads]: [n, n_heads, t].
  Value mul_mat_heads(Value weights, Value x);
};

}  // namespace tessera
