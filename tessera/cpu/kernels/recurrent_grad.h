// Kernels of the gradients of recurrent layers (graph/ops/recurrent.h): their part of the table in kernels.h. Plain
// declarations only.
//
// A task consists of one sequence's tokens, in order, and some channels, or one head and some of its values. Names and
// strides are as in recurrent.h, and d_x is the gradient of x. "Set" outputs are overwritten. "Added to" outputs
// accumulate the contributions of several tasks. States are recomputed from `before`, because the forward pass keeps
// only the last one.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tessera/cpu/kernels/recurrent.h"

namespace tessera::cpu {

struct ConvGradTask {
  const int32_t* tokens;
  int64_t n_tokens;
  int64_t n_channels;  // 1 to kConvChannels
  int64_t width;       // 2 to kConvWidth
  const float* x;
  int64_t x_stride;
  const float* weight;  // [width, n_channels]
  const float* before;  // width - 1 rows, state_stride apart; or null
  int64_t state_stride;
  const float* dy;
  int64_t dy_stride;
  float* d_x;  // set
  int64_t d_x_stride;
  float* d_weight;  // [kConvChannels, width], added to
};

struct ScanGradTask {
  const int32_t* tokens;
  int64_t n_tokens;
  int64_t n_state, n_values;
  const float *x, *dy;  // [n_values] per token
  int64_t x_stride, dy_stride;
  const float* dt;  // one per token
  int64_t dt_stride;
  const float* a;  // [n_state], or one value if a_is_one
  bool a_is_one;
  const float *b, *c;  // [n_state] per token
  int64_t b_stride, c_stride;
  float d;
  const float* before;  // [n_state, n_values] or null
  float* d_x;           // [n_values] per token, set
  int64_t d_x_stride;
  float* d_dt;  // one per token, added to, like all outputs below
  int64_t d_dt_stride;
  float* d_a;
  float *d_b, *d_c;  // [n_state] per token
  int64_t d_bc_stride;
  float* d_d;
  float* scratch;
};

struct DeltaGradTask {
  const int32_t* tokens;
  int64_t n_tokens;
  int64_t k_dim, n_values;
  const float *q, *k;  // [k_dim] per token
  int64_t q_stride, k_stride;
  const float *v, *dy;  // [n_values] per token
  int64_t v_stride, dy_stride;
  const float *decay, *beta;  // one per token
  int64_t decay_stride, beta_stride;
  float scale;
  const float* before;  // [k_dim, n_values] or null
  float *d_q, *d_k;     // added to
  int64_t d_qk_stride;
  float* d_v;  // set
  int64_t d_v_stride;
  float *d_decay, *d_beta;  // added to
  int64_t d_decay_stride;
  float* scratch;
};

struct Rwkv7GradTask {
  const int32_t* tokens;
  int64_t n_tokens;
  int64_t head_dim, n_values;
  bool reads_before;                   // the output reads the state before the token's own update
  const float *r, *decay, *k, *a, *b;  // [head_dim] per token
  int64_t r_stride, decay_stride, k_stride, a_stride, b_stride;
  const float *v, *dy;  // [n_values] per token
  int64_t v_stride, dy_stride;
  const float* before;                           // [head_dim, n_values] or null
  float *d_r, *d_decay, *d_k, *d_v, *d_a, *d_b;  // d_v is set, the others are added to
  int64_t d_stride;                              // for all of them
  float* scratch;
};

struct RecurrentGradKernels {
  void (*causal_conv)(const ConvGradTask& task);
  void (*selective_scan)(const ScanGradTask& task);
  void (*delta_net)(const DeltaGradTask& task);
  void (*rwkv7)(const Rwkv7GradTask& task);
  /// Returns the scratch floats of a task of the last three kernels with a state [n, n_values]. The result never
  /// decreases with more tokens.
  size_t (*scratch_floats)(int64_t n_tokens, int64_t n, int64_t n_values);
};

}  // namespace tessera::cpu
