// Kernels of recurrent layers (graph/ops/recurrent.h): their part of the table in kernels.h. Plain declarations only.
//
// A task consists of one sequence's tokens, in order, and some of the channels or heads. Channels and heads are
// independent of each other, so their division into tasks does not change any bits. Strides are in floats. The input of
// the i-th token is at x + tokens[i] * x_stride. `before` is the initial state, null for zeros. `after` receives the
// state after the last token, and may be `before`.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tessera::cpu {

/// Limits of a convolution task: channels per task, and width.
inline constexpr int kConvChannels = 64;
inline constexpr int kConvWidth = 32;

struct ConvTask {
  const int32_t* tokens;
  int64_t n_tokens;
  int64_t n_channels;  // 1 to kConvChannels
  int64_t width;       // 2 to kConvWidth
  const float* x;
  int64_t x_stride;
  float* out;
  int64_t out_stride;
  const float* weight;  // [width, n_channels]
  const float* bias;    // [n_channels] or null
  const float* before;  // width - 1 rows, state_stride apart
  float* after;
  int64_t state_stride;
};

struct ScanTask {
  const int32_t* tokens;
  int64_t n_tokens;
  int64_t n_state, head_dim;
  int64_t head_begin, head_end;
  int64_t heads_per_group;
  const float* x;  // [head_dim, n_heads] per token
  int64_t x_head_stride, x_stride;
  const float* dt;  // [n_heads] per token
  int64_t dt_stride;
  const float* a;  // [n_state, n_heads], or [n_heads] if a_per_head
  bool a_per_head;
  const float *b, *c;  // [n_state, n_groups] per token
  int64_t b_group_stride, b_stride, c_group_stride, c_stride;
  const float* d;  // [n_heads]
  float* out;      // [head_dim, n_heads] per token; heads are contiguous
  int64_t out_stride;
  const float* before;  // [n_state, head_dim, n_heads]
  float* after;
};

/// A task of one head, for some of its values.
struct DeltaTask {
  const int32_t* tokens;
  int64_t n_tokens;
  int64_t k_dim, n_values;
  const float *q, *k;  // [k_dim] per token
  int64_t q_stride, k_stride;
  const float* v;  // [n_values] per token
  int64_t v_stride;
  const float *decay, *beta;  // one per token
  int64_t decay_stride, beta_stride;
  float scale;
  float* out;  // [n_values] per token
  int64_t out_stride;
  const float* before;  // [k_dim, n_values]
  float* after;
};

/// A task of one head, for some of its values.
struct Rwkv7Task {
  const int32_t* tokens;
  int64_t n_tokens;
  int64_t head_dim, n_values;
  bool reads_before;                   // the output reads the state before the token's own update
  const float *r, *decay, *k, *a, *b;  // [head_dim] per token
  int64_t r_stride, decay_stride, k_stride, a_stride, b_stride;
  const float* v;  // [n_values] per token
  int64_t v_stride;
  float* out;  // [n_values] per token
  int64_t out_stride;
  const float* before;  // [head_dim, n_values]
  float* after;
};

struct RecurrentKernels {
  /// out = sum over the last `width` inputs, oldest first, of weight * input, + bias.
  void (*causal_conv)(const ConvTask& task);
  /// state = e^(dt a) state + dt x b;  out = state c + d x  (Gu and Dao 2023; Dao and Gu 2024)
  void (*selective_scan)(const ScanTask& task);
  /// state *= decay;  state += k (beta (v - state k));  out = scale state q  (Yang et al. 2024)
  void (*delta_net)(const DeltaTask& task);
  /// state = state decay + v k + (state a) b;  out = state r  (Peng et al. 2025)
  void (*rwkv7)(const Rwkv7Task& task);
};

}  // namespace tessera::cpu
