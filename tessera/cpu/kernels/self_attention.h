// What the kernels of one instruction set offer for attention among the tokens of a batch and its gradients
// (graph/ops/self_attention.h): their part of the table in kernels.h. Plain declarations only.
//
// A task is one query head of one sequence. Its tokens are taken in blocks of 64 from the first on, whatever else the
// batch holds, so a division of sequences, heads and blocks of queries shows in no bits.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tessera::cpu {

/// Queries and keys that are multiplied at a time, and those that share a range of positions.
inline constexpr int kSelfBlock = 64;
inline constexpr int kSelfGroup = 16;

/// Rows of one head: that of token t of the batch begins at first + t * stride (floats).
template <class T>
struct HeadRows {
  T* first;
  int64_t stride;
};

struct SelfAttentionTask {
  const int32_t* tokens;  // the sequence's, in any order
  int64_t n_tokens;
  const float* positions;  // of each of these: whole numbers below 2^24
  const float* lowest;     // of each 16 of these
  const float* highest;
  int64_t k_dim;
  int64_t v_dim;
  HeadRows<const float> q, k, v;
  // Scores and what is seen: see AttentionParams.
  float scale;
  float soft_cap;     // 0: none
  float slope;        // ALiBi's
  const float* sink;  // null: none
  bool causal;
  float window;  // 0: none
};

/// Where a task's gradients go. dv may be part of the rows of dk, where V is part of K.
struct SelfAttentionGradients {
  HeadRows<const float> dy;
  HeadRows<float> dq;      // is written
  HeadRows<float> dk, dv;  // are added to
  float* sink_terms;       // by token of the batch, is written: their sum is the sink's gradient; null: none
};

struct SelfAttentionSize {
  int64_t k_dim;
  int64_t v_dim;
  int64_t n_tokens;  // of the longest sequence
  bool has_gradient;
  bool has_cap;
};

struct SelfAttentionKernels {
  /// A multiple of 64.
  size_t (*scratch_bytes)(const SelfAttentionSize& size);
  /// out = softmax(scores) V for 64 queries from the first-th token on, or those that are left. One that sees nothing
  /// gives zeros.
  void (*forward)(const SelfAttentionTask& task, int64_t first, HeadRows<float> out, void* scratch);
  /// The gradients of the whole sequence.
  void (*backward)(const SelfAttentionTask& task, const SelfAttentionGradients& gradients, void* scratch);
};

}  // namespace tessera::cpu
