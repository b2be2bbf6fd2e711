// Attention among the tokens of a batch, without a cache. Training uses it in place of attention, with the same
// parameters (ops/attention.h).
#pragma once

#include "tessera/graph/ops/attention.h"
#include "tessera/tensor/shape.h"

namespace tessera {

/// Upper bound of positions, so that kernels may compare them as floats.
inline constexpr int64_t kMaxSelfPositions = int64_t{1} << 24;

/// Offsets, in elements, of the gradients in the result of self_attention_grad. dq is at 0. Each gradient is contiguous
/// and has its operand's shape. Gradients of absent operands are empty.
struct SelfAttentionOffsets {
  int64_t dk = 0;
  int64_t dv = 0;
  int64_t dsinks = 0;
  int64_t end = 0;
};
/// `v` is null if V is part of K.
SelfAttentionOffsets self_attention_offsets(const Shape& q, const Shape& k, const Shape* v, bool has_sinks);

/// The part of GraphBuilder that adds attention without a cache.
class SelfAttentionOps {
 public:
  /// Computes the same as attention() without a bias, among the tokens of a batch. A token attends to the tokens with
  /// the same id in `sequences`.
  ///   q [k_dim, n_heads, t]; k [k_dim, n_heads_kv, t]; v [v_dim, n_heads_kv, t], absent if it is part of k;
  ///   positions (below kMaxSelfPositions), sequences i32 [t]; sinks [n_heads] or absent
  ///   returns [v_dim, n_heads, t]
  Value self_attention(Value q, Value k, Value v, Value positions, Value sequences, Value sinks,
                       const AttentionParams& params);
  /// The gradients of self_attention's operands, one after another, at self_attention_offsets(). dy is the gradient of
  /// its result.
  Value self_attention_grad(Value q, Value k, Value v, Value positions, Value sequences, Value sinks, Value dy,
                            const AttentionParams& params);
};

}  // namespace tessera
