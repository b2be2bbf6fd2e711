// Attention among the tokens of a batch, without a cache: what training runs in the place of attention, with the same
// parameters (ops/attention.h).
#pragma once

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

}  // namespace tessera
