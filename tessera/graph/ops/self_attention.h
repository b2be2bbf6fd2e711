// Attention among the tokens of a batch, without a cache: what training runs in the place of attention, with the same
// parameters (ops/attention.h).
#pragma once

#include "tessera/graph/ops/attention.h"
#include "tessera/tensor/shape.h"

namespace tessera {

/// Positions are below this, so that kernels may compare them as floats.
inline constexpr int64_t kMaxSelfPositions = int64_t{1} << 24;

/// Where the gradients begin in the result of self_attention_grad, in elements: dq at 0, then these, each contiguous
/// and of its operand's shape. Those of absent operands are empty.
struct SelfAttentionOffsets {
  int64_t dk = 0;
  int64_t dv = 0;
  int64_t dsinks = 0;
  int64_t end = 0;
};
/// `v` is null where V is part of K.
SelfAttentionOffsets self_attention_offsets(const Shape& q, const Shape& k, const Shape* v, bool has_sinks);

/// The part of GraphBuilder that adds attention without a cache.
class SelfAttentionOps {
 public:
  /// Attention as attention() computes it, without a bias, among the tokens of a batch. A token sees the tokens with
  /// its own id in `sequences`.
  ///   q [k_dim, n_heads, t]; k [k_dim, n_heads_kv, t]; v [v_dim, n_heads_kv, t], absent where it is part of k;
  ///   positions (below kMaxSelfPositions), sequences i32 [t]; sinks [n_heads] or absent
  ///   returns [v_dim, n_heads, t]
  Value self_attention(Value q, Value k, Value v, Value positions, Value sequences, Value sinks,
                       const AttentionParams& params);
  /// The gradients of self_attention's operands one after another, at self_attention_offsets(); dy is the gradient of
  /// its result.
  Value self_attention_grad(Value q, Value k, Value v, Value positions, Value sequences, Value sinks, Value dy,
                            const AttentionParams& params);
};

}  // namespace tessera
