// Layers that mix tokens through a state (graph/ops/recurrent.h) instead of attention. Each computes the input of its
// output projection from normed x [n_embd, t].
#pragma once

#include <array>

#include "tessera/nn/inputs.h"
#include "tessera/nn/linear.h"
#include "tessera/nn/norm.h"

namespace tessera::nn {

/// Views n adjacent elements of each row of y, from `first` on.
Value columns(GraphBuilder& b, Value y, int64_t first, int64_t n);
/// Columns [first, first + n) of each of n_parts equal parts of a row of y, copied: [n * n_parts, t].
Value part_columns(GraphBuilder& b, Value y, int64_t n_parts, int64_t first, int64_t n);
/// The same view as heads [dim, n_heads, t].
Value head_columns(GraphBuilder& b, Value y, int64_t first, int64_t dim, int64_t n_heads);

struct CausalConv {
  const Tensor* weight = nullptr;  // [width, n] or [width, 1, n]
  const Tensor* bias = nullptr;    // [n] or null
};

/// A convolution whose past inputs are kept in a layer's state `kind`.
Value causal_conv(GraphBuilder& b, Value x, const CausalConv& conv, const BatchInputs& in, int64_t layer, int64_t kind);

/// LFM2's gated short convolution: [B | C | X] = in x; C * conv(B * X). The convolution uses state 0.
struct ShortConv {
  Linear in{};
  CausalConv conv{};
  Linear out{};
  int64_t state_layer = -1;
};
Value short_conv(GraphBuilder& b, Value x, const ShortConv& mixer, const BatchInputs& in);

/// Mamba (Gu and Dao 2023): [x | z] = in x; x = silu(conv(x)); [dt | B | C] = x_proj x, each normed if has_norms; dt =
/// softplus(dt_proj dt); y = scan; y * silu(z). The convolution uses state 0, the scan state 1.
struct Mamba {
  Linear in{};
  CausalConv conv{};
  Linear x_proj{};
  bool has_norms = false;  // of dt, B and C, also if the norms below have no weights
  Norm dt_norm{}, b_norm{}, c_norm{};
  Linear dt_proj{};
  const Tensor* a = nullptr;  // [n_state, n_inner]
  const Tensor* d = nullptr;  // [n_inner]
  Linear out{};
  int64_t n_inner = 0, n_state = 0, dt_rank = 0;
  int64_t state_layer = -1;
};
Value mamba(GraphBuilder& b, Value x, const Mamba& mixer, const BatchInputs& in);

/// Mamba 2 (Dao and Gu 2024): [z | xBC | dt] = in x; [x | B | C] = silu(conv(xBC)); dt = softplus(dt + bias); y = scan
/// with one decay per head; norm of y * silu(z) within each group. States are those of Mamba.
struct Mamba2 {
  Linear in{};
  CausalConv conv{};
  const Tensor* dt_bias = nullptr;  // [n_heads]
  const Tensor* a = nullptr;        // [1, n_heads]
  const Tensor* d = nullptr;        // [1, n_heads]
  Norm norm{};                      // [n_inner / n_groups, n_groups]; no weight: no norm
  Linear out{};
  int64_t n_inner = 0, n_state = 0, n_heads = 0, n_groups = 0;
  int64_t state_layer = -1;
};
Value mamba2(GraphBuilder& b, Value x, const Mamba2& mixer, const BatchInputs& in);

/// A product with two small matrices: up act(down x) + bias.
struct LowRank {
  Linear down{}, up{};
  const Tensor* bias = nullptr;  // [n] or null
};

/// The gated delta net (Yang et al. 2024) of Qwen 3 Next: [q | k | v] = silu(conv(qkv x)); q and k are scaled to norm 1
/// per head; decay e^(a softplus(alpha + bias)), beta sigmoid(beta); norm of each head of the recurrence's output, *
/// silu(z). The convolution uses state 0, the recurrence state 1. If one product computes q, k, v and z per key head,
/// the channels of q, k and v have separate convolutions in states 0, 2 and 3.
struct DeltaNet {
  // [q | k | v] and z. Or one product, per key head: its q, its k, and its value heads' v and z (qkv has no weight
  // then).
  Linear qkv{}, z{}, qkvz{};
  // alpha and beta. Or one product, per key head: its value heads' beta, then alpha (alpha and beta have no weight
  // then).
  Linear alpha{}, beta{}, beta_alpha{};
  CausalConv conv{};
  const Tensor* dt_bias = nullptr;  // [n_v_heads]
  const Tensor* a = nullptr;        // [n_v_heads]
  Norm norm{};                      // [dim]
  Linear out{};
  int64_t dim = 0, n_k_heads = 0, n_v_heads = 0;
  KeyHeads key_heads = KeyHeads::grouped;
  float eps = 0.0f;  // lower bound of the divisor of q and k
  int64_t state_layer = -1;
};
Value delta_net(GraphBuilder& b, Value x, const DeltaNet& mixer, const BatchInputs& in);

/// Kimi Delta Attention (Kimi Team 2025): q, k and v are silu(conv(W x)), and q and k are scaled to norm 1 per head.
/// The delta rule as in DeltaNet with a decay per channel of the key, e^(a softplus(decay x)), and beta sigmoid(beta
/// x). Then the norm of each head, * sigmoid(gate x). The convolutions use states 0, 2 and 3, the recurrence state 1.
struct KimiDelta {
  Linear q{}, k{}, v{};
  CausalConv conv_q{}, conv_k{}, conv_v{};
  LowRank decay{};
  const Tensor* a = nullptr;  // [1, n_heads]
  Linear beta{};
  LowRank gate{};
  Norm norm{};  // [dim]
  Linear out{};
  int64_t dim = 0, n_heads = 0;
  float eps = 0.0f;  // lower bound of the divisor of q and k
  int64_t state_layer = -1;
};
Value kimi_delta(GraphBuilder& b, Value x, const KimiDelta& mixer, const BatchInputs& in);

/// RWKV-7's time mixing (Peng et al. 2025). State 0 is the x of the last token.
struct Rwkv7TimeMix {
  const Tensor* lerp = nullptr;  // [n_embd, 1, 1, 5 or 6]: for r, w, k, v, a, and g if present
  Linear r{}, k{}, v{};
  LowRank w{}, a{}, v_mix{}, g{};                               // v_mix in all layers but the first; g in some models
  const Tensor *k_k = nullptr, *k_a = nullptr, *r_k = nullptr;  // [n_embd]
  const Tensor *norm_weight = nullptr, *norm_bias = nullptr;    // [n_embd]: for the heads' outputs; null: no norm
  Linear out{};
  int64_t head_dim = 0, n_heads = 0;
  int64_t recurrence = 2;  // the recurrence's state, after that of channel mixing if there is one
  int64_t state_layer = -1;
};
/// v_first: v of the first layer. It is absent in the call for the first layer, which sets it.
Value rwkv7_time_mix(GraphBuilder& b, Value x, const Rwkv7TimeMix& mixer, const BatchInputs& in, Value& v_first);

/// RWKV-7's channel mixing: value relu(key (x + lerp (x of the previous token - x)))^2. State 1 is the x of the last
/// token.
struct Rwkv7ChannelMix {
  const Tensor* lerp = nullptr;  // [n_embd]
  Linear key{}, value{};
  int64_t state_layer = -1;
};
Value rwkv7_channel_mix(GraphBuilder& b, Value x, const Rwkv7ChannelMix& mixer, const BatchInputs& in);

/// RWKV-6's time mixing (Peng et al. 2024), and its form without a bonus as a linear attention with fewer KV heads, in
/// models made from Qwen 2. State 0 is the x of the last token.
struct Rwkv6TimeMix {
  const Tensor* lerp_x = nullptr;                         // [n_embd]
  std::array<const Tensor*, 5> lerp{};                    // [n_embd] for w, k, v, r, g; or only the first, with 5 rows
  const Tensor *lerp_down = nullptr, *lerp_up = nullptr;  // [n_embd, 5 * rank], [rank, n_embd, 5]
  Linear r{}, k{}, v{}, g{};
  LowRank w{};
  const Tensor* bonus = nullptr;                              // [head_dim, n_heads], or null: linear attention
  const Tensor *norm_weight = nullptr, *norm_bias = nullptr;  // [n_embd]: for the heads' outputs; null: no norm
  Linear out{};
  int64_t head_dim = 0, n_heads = 0, n_heads_kv = 0;
  int64_t recurrence = 2;  // as in Rwkv7TimeMix
  int64_t state_layer = -1;
};
Value rwkv6_time_mix(GraphBuilder& b, Value x, const Rwkv6TimeMix& mixer, const BatchInputs& in);

/// RWKV-6's channel mixing: sigmoid(receptance x_r) * value relu(key x_k)^2. State 1 is the x of the last token.
struct Rwkv6ChannelMix {
  const Tensor *lerp_k = nullptr, *lerp_r = nullptr;  // [n_embd]
  Linear key{}, value{}, receptance{};
  int64_t state_layer = -1;
};
struct GatedHidden {
  Value hidden, gate;  // relu(key x_k)^2 [n_ff, t] and sigmoid(receptance x_r) [n_embd, t]
};
GatedHidden rwkv6_channel_mix(GraphBuilder& b, Value x, const Rwkv6ChannelMix& mixer, const BatchInputs& in);

}  // namespace tessera::nn
