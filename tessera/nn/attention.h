// Attention: over the paged cache, among the tokens of a batch without one (training), to an encoder's output.
#pragma once

#include <span>

#include "tessera/nn/inputs.h"
#include "tessera/nn/linear.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/rope.h"

namespace tessera::nn {

struct Attention {
  Linear q{}, k{}, v{};
  Linear qkv{};  // or one product whose rows are q's, k's, v's: then q, k and v have no weights
  Linear out{};
  Norm q_norm{}, k_norm{};                // of heads, before they are rotated
  const Tensor* sinks = nullptr;          // [n_heads] or null
  const Tensor* relative_bias = nullptr;  // [n_heads, n_buckets] or null
  int64_t n_heads = 0;
  int64_t n_heads_kv = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  float clamp = 0.0f;        // > 0: bounds the products, biases included, to -clamp to clamp
  int rope = kNoRope;        // of the model's ropes
  int64_t cache_layer = -1;  // the cache's layer that holds K and V
  AttentionParams params{};
};

/// A rope's table of a micro-batch, and which elements it pairs.
struct RopeTable {
  Value table;
  RopePairs pairs = RopePairs::adjacent;
};

/// What heads attend with: q [k_dim, n_heads, t], k [k_dim, n_heads_kv, t], v [v_dim, n_heads_kv, t].
struct Heads {
  Value q, k, v;
};

/// Projects x [n_embd, t]: products, biases, bounds, and the norms of q and k.
Heads project(GraphBuilder& b, Value x, const Attention& attention);

/// q and k rotated by the attention's rope, if it has one.
Heads rotate(GraphBuilder& b, Heads heads, const Attention& attention, std::span<const RopeTable> ropes);

/// Stores k and v (absent: they are there already, or V is part of K) in the attention's layer of the cache, and
/// attends; where the batch has no cells of it, for training, attends among the batch's tokens. Returns the heads'
/// outputs [v_dim * n_heads, t], before the output projection. Errors without cells: unsupported (a relative bias; K
/// that is in the cache already).
Value attend(GraphBuilder& b, const Heads& heads, const Attention& attention, const BatchInputs& in,
             const KvCache& cache);

/// Attends with q [k_dim * n_heads, t] to what an encoder left in the attention's layer of its cache. Returns the
/// heads' outputs [v_dim * n_heads, t].
Value attend_to_encoder(GraphBuilder& b, Value q, const Attention& attention, const BatchInputs& in);

}  // namespace tessera::nn
