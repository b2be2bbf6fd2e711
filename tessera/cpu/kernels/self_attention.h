// Kernels of attention among the tokens of a batch and its gradients (graph/ops/self_attention.h): their part of the
// table in kernels.h. Plain declarations only.
//
// A task is one query head of one sequence. Its tokens are divided into blocks of 64 from the first on, independent of
// the rest of the batch. So the distribution of sequences, heads and blocks of queries does not change any bits.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tessera::cpu {

/// Queries and keys per block, which are multiplied at a time, and per group, which share a range of positions.
inline constexpr int kSelfBlock = 64;
inline constexpr int kSelfGroup = 16;

/// Rows of one head: the row of token t of the batch begins at first + t * stride (in floats).
template <class T>
struct HeadRows {
  T* first;
  int64_t stride;
};

struct SelfAttentionTask {
  const int32_t* tokens;  // of the sequence, in any order
  int64_t n_tokens;
  const float* positions;  // of each of these tokens: integers below 2^24
  const float* lowest;     // lowest and highest position of each group of 16 tokens
  const float* highest;
  int64_t k_dim;
  int64_t v_dim;
  HeadRows<const float> q, k, v;
  // Scores and masks: see AttentionParams.
  float scale;
  float soft_cap;     // 0: none
  float slope;        // of ALiBi
  const float* sink;  // null: none
  bool causal;
  float window;  // 0: none
  bool chunked;  // chunks of `window` positions
};

/// The outputs of a task's gradients. dv may be part of the rows of dk if V is part of K.
struct SelfAttentionGradients {
  HeadRows<const float> dy;
  HeadRows<float> dq;      // set
  HeadRows<float> dk, dv;  // added to
  float* sink_terms;       // set, per token of the batch: their sum is the sink's gradient; null: none
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
  /// out = softmax(scores) V for up to 64 queries from token `first` on. A query without visible keys gives zeros.
  void (*forward)(const SelfAttentionTask& task, int64_t first, HeadRows<float> out, void* scratch);
  /// Computes the gradients of the whole sequence.
  void (*backward)(const SelfAttentionTask& task, const SelfAttentionGradients& gradients, void* scratch);
};

}  // namespace tessera::cpu
