// Norms of rows and of heads.
#pragma once

#include "tessera/graph/builder.h"

namespace tessera::nn {

enum class NormKind : uint8_t { rms, layer };

struct Norm {
  NormKind kind = NormKind::rms;
  const Tensor* weight = nullptr;  // null: 1
  const Tensor* bias = nullptr;    // null: 0
  float eps = 0.0f;

  /// Whether the file has it: norms that may be absent.
  bool present() const { return weight != nullptr; }
};

/// Each row of x by itself; weight and bias [n].
Value norm(GraphBuilder& b, Value x, const Norm& norm);

/// x [dim, n_heads, t], as the weight's shape says: [dim] is every head's, [dim, n_heads] has a row for each head, and
/// with [dim * n_heads] the heads of a token are one vector.
Value head_norm(GraphBuilder& b, Value x, const Norm& norm);

}  // namespace tessera::nn
