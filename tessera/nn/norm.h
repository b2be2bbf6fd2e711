// Norms of rows and of heads.
#pragma once

#include "tessera/graph/builder.h"

namespace tessera::nn {

enum class NormKind : uint8_t { rms, layer };

struct Norm {
  NormKind kind = NormKind::rms;
  const Tensor* weight = nullptr;  // null: 1
  const Tensor* bias = nullptr;    // null: 0
  bool is_weightless = false;      // the architecture has this norm, without weights
  float eps = 0.0f;

  /// False for an optional norm that the model does not have.
  bool present() const { return weight != nullptr || is_weightless; }
};

/// Normalizes each row of x separately; weight and bias [n].
Value norm(GraphBuilder& b, Value x, const Norm& norm);

/// Normalizes x [dim, n_heads, t] as the shape of the weight implies. [dim] is shared by all heads, and [dim, n_heads]
/// has one row per head. With [dim * n_heads] the heads of a token are normalized as one vector.
Value head_norm(GraphBuilder& b, Value x, const Norm& norm);

}  // namespace tessera::nn
