// Recurrent operations. Besides its inputs each reads a state, f32 [n_elements, n_slots], and segments. A segment is
// the tokens of one sequence in order. It reads its state from one slot (or begins with zeros) and writes the state
// after its last token to a slot, which may be the same one. No other node of the graph reads the state, so the result
// of an operation is only its output.
//
// Segments are one i32 vector of 4 * n_segments + n_tokens:
//   n_segments times begin, count, read, write: tokens order[begin, begin + count); read -1 for zeros; count 0: unused
//   n_tokens: order
// Every token is in exactly one segment. If a segment writes a slot, no other segment may read or write it. The code
// that creates segments ensures both (cache/recurrent.h). Indices out of range fail the run of the graph.
//
// Elements of a slot, fastest first:
//   causal_conv      [n, width - 1]       the last inputs, oldest first
//   token_shift      [n]                  the last input
//   selective_scan   [n_state, head_dim, n_heads]
//   delta_net        [k_dim, v_dim, n_heads]
//   rwkv7            [head_dim (of k), head_dim (of v), n_heads]
//
// Gradients propagate back through the tokens of each segment; the state at its beginning is a constant. The gradient
// reads that state again, so with gradients a segment must not write the slot that it reads.
//
// Each recurrence proceeds strictly token by token, so the split into micro-batches does not change a bit of the
// result.
#pragma once

#include <cstdint>

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

/// Maximum width of a convolution.
inline constexpr int64_t kMaxConvWidth = 32;

/// Number of integers that describe a segment.
inline constexpr int64_t kSegmentFields = 4;

/// The key head, of n_k, of the value head j, of n_v: j / (n_v / n_k), or j % n_k.
enum class KeyHeads : uint8_t { grouped, tiled };

struct DeltaNetParams {
  KeyHeads key_heads = KeyHeads::grouped;
  float scale = 1.0f;  // factor of the output
  void list(ParamList& params) const {
    params.integer("tiled", key_heads == KeyHeads::tiled);
    params.number("scale", scale);
  }
};

/// The state that a token's output reads: the one after the token's own key and value, or the one before (RWKV-6).
enum class StateRead : uint8_t { after, before };

struct Rwkv7Params {
  StateRead read = StateRead::after;
  void list(ParamList& params) const {
    // Plugins that know only RWKV-7 get no parameters for it.
    if (read == StateRead::before) params.integer("before", 1);
  }
};

/// The part of GraphBuilder that adds recurrent layers.
class RecurrentOps {
 public:
  /// y[c, t] = sum over j of weight[j, c] * x[c, t - (width - 1) + j], + bias; x [n, n_tokens], weight [width, n],
  /// bias [n] or absent.
  Value causal_conv(Value x, Value weight, Value bias, Value state, Value segments);
  /// The previous token's row minus the token's own row: [n, n_tokens].
  Value token_shift(Value x, Value state, Value segments);
  /// A selective state space (Gu and Dao 2023; Dao and Gu 2024), per head h of group h / (n_heads / n_groups):
  ///   S[n, p] = e^(dt[h] * a[n, h]) * S[n, p] + dt[h] * x[p, h] * b[n, group]
  ///   y[p, h] = sum over n of S[n, p] * c[n, group], + d[h] * x[p, h]
  /// x [head_dim, n_heads, n_tokens]; dt [n_heads, n_tokens]; a [n_state, n_heads] or [1, n_heads];
  /// b, c [n_state, n_groups, n_tokens]; d [n_heads]
  Value selective_scan(Value x, Value dt, Value a, Value b, Value c, Value d, Value state, Value segments);
  /// The gated delta rule (Yang et al. 2024), per value head. S is scaled by decay. Then S[i, j] += k[i] * beta * (v[j]
  /// - sum over i of S[i, j] * k[i]), and y[j] = scale * sum over i of S[i, j] * q[i].
  ///   q, k [k_dim, n_k_heads, n_tokens]; v [v_dim, n_heads, n_tokens]; decay, beta [n_heads, n_tokens]
  Value delta_net(Value q, Value k, Value v, Value decay, Value beta, Value state, Value segments,
                  const DeltaNetParams& params);
  /// RWKV-7 (Peng et al. 2025), per head: S[j, i] = S[j, i] * decay[j] + v[i] * k[j] + s[i] * b[j], where s[i] = sum
  /// over j of S[j, i] * a[j] with the previous S; y[i] = sum over j of S[j, i] * r[j], with the new S or, with
  /// StateRead::before, the previous one. All [head_dim, n_heads, n_tokens].
  Value rwkv7(Value r, Value decay, Value k, Value v, Value a, Value b, Value state, Value segments,
              const Rwkv7Params& params = {});
  /// The gradients of these operations, for the same operands. The result is a flat vector of the gradients of the
  /// first operands, each contiguous in its operand's shape. The operands are x, weight; x, dt, a, b, c, d; q, k, v,
  /// decay, beta; r, decay, k, v, a, b. token_shift_grad returns the gradient of x in its shape.
  Value causal_conv_grad(Value x, Value weight, Value state, Value segments, Value dy);
  Value token_shift_grad(Value dy, Value state, Value segments);
  Value selective_scan_grad(Value x, Value dt, Value a, Value b, Value c, Value d, Value state, Value segments,
                            Value dy);
  Value delta_net_grad(Value q, Value k, Value v, Value decay, Value beta, Value state, Value segments, Value dy,
                       const DeltaNetParams& params);
  Value rwkv7_grad(Value r, Value decay, Value k, Value v, Value a, Value b, Value state, Value segments, Value dy,
                   const Rwkv7Params& params = {});
};

}  // namespace tessera
