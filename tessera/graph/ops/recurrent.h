// Operations with a memory. Beside its inputs each takes a state, f32 [n_elements, n_slots], and runs: the tokens of
// one sequence in order. A run reads its state from one slot (or begins from zeros) and writes the state after its
// last token into a slot, which may be the same one. That write is all that happens to the state: nobody in the graph
// reads it, so an operation's result is its output alone.
//
// Runs are one i32 vector of 4 * n_runs + n_tokens:
//   n_runs times begin, count, read, write: tokens order[begin, begin + count); read -1 for zeros; count 0: no run
//   n_tokens: order
// Every token is in one run, and a slot that a run writes no other run reads or writes: who makes runs sees to that
// (cache/recurrent.h); indices out of range fail the run of the graph.
//
// Elements of a slot, fastest first:
//   causal_conv      [n, width - 1]       the last inputs, oldest first
//   token_shift      [n]                  the last input
//   selective_scan   [n_state, head_dim, n_heads]
//   delta_net        [k_dim, v_dim, n_heads]
//   rwkv7            [head_dim (of k), head_dim (of v), n_heads]
//
// Gradients go back through the tokens of each run; the state at its beginning is a constant. It is read again, so a
// run may not write the slot that it reads where gradients are wanted.
//
// Each recurrence goes strictly token by token, so that the split into micro-batches does not show in its bits.
#pragma once

#include <cstdint>

namespace tessera {

/// The widest convolution.
inline constexpr int64_t kMaxConvWidth = 32;

/// Integers of a run.
inline constexpr int64_t kRunFields = 4;

struct L2NormParams {
  float eps = 0.0f;  // the norm is at least this
};

/// Which of n_k key heads the value head j of n_v uses: j / (n_v / n_k), or j % n_k.
enum class KeyHeads : uint8_t { grouped, tiled };

struct DeltaNetParams {
  KeyHeads key_heads = KeyHeads::grouped;
  float scale = 1.0f;  // of the output
};

}  // namespace tessera
