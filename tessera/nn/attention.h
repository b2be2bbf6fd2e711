// Attention over the paged cache, among the tokens of a batch without a cache (training), and to an encoder's output.
#pragma once

#include <span>

#include "tessera/nn/inputs.h"
#include "tessera/nn/linear.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/rope.h"

namespace tessera::nn {

/// A gate of the heads' outputs: sigmoid or softplus of a product with the input of the layer.
struct HeadGate {
  Linear product{};  // [n_embd, n_heads] or [n_embd, v_dim * n_heads]; no weight: none
  bool is_softplus = false;
};

/// The choice of the keys that each query attends to, by scores of keys in a cache of their own.
struct KeyChoice {
  Linear q{};        // [n_in, dim * n_heads]
  Linear k{};        // [n_embd, dim]; no weight: the layer chooses no keys
  Linear weights{};  // [n_embd, n_heads]: of the sum over heads; no weight: each head chooses for its KV head
  Norm q_norm{}, k_norm{};
  int64_t n_heads = 0;
  int64_t dim = 0;
  int rope = kNoRope;        // index into the model's ropes
  int64_t cache_layer = -1;  // layer of the cache that stores the keys
  KeyChoiceParams params{};

  bool present() const { return k.weight != nullptr; }
};

struct Attention {
  Linear q{}, k{}, v{};
  Linear qkv{};  // one product whose rows are those of q, k and v; then q, k and v have no weights
  Linear out{};
  HeadGate gate{};
  Norm q_norm{}, k_norm{};
  bool norms_rotated = false;             // q and k are rotated before they are normed, not after
  const Tensor* sinks = nullptr;          // [n_heads] or null
  const Tensor* relative_bias = nullptr;  // [n_heads, n_buckets] or null
  int64_t n_heads = 0;
  int64_t n_heads_kv = 0;
  int64_t qkv_heads_kv = 0;  // KV heads in qkv, of which the first n_heads_kv are used
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  float clamp = 0.0f;           // > 0: clamps the products, including biases, to [-clamp, clamp]
  bool has_temperature = true;  // q is multiplied by the model's factors of positions, if it has them
  int rope = kNoRope;           // index into the model's ropes
  int64_t cache_layer = -1;     // layer of the cache that stores K and V
  AttentionParams params{};
  KeyChoice choice{};
};

/// The rope table of a micro-batch, and the pairing of its elements.
struct RopeTable {
  Value table;
  RopePairs pairs = RopePairs::adjacent;
};

/// The operands of attention: q [k_dim, n_heads, t], k [k_dim, n_heads_kv, t], v [v_dim, n_heads_kv, t].
struct Heads {
  Value q, k, v;
};

/// Projects x [n_embd, t]: products, biases, bounds, and the norms of q and k that come before the rotation.
Heads project(GraphBuilder& b, Value x, const Attention& attention);

/// Rotates q and k by the attention's rope, if it has one, and applies the norms that come after it.
Heads rotate(GraphBuilder& b, Heads heads, const Attention& attention, std::span<const RopeTable> ropes);

/// Stores k and v in the attention's layer of the cache, then attends. An absent k or v is in the cache already, or V
/// is part of K. If the batch has no cells of the cache (training), attends among the tokens of the batch. `chosen` is
/// the result of choose_keys(). Returns the heads' outputs [v_dim * n_heads, t], before the output projection. Errors
/// without cells: unsupported (a relative bias; K that is in the cache already).
Value attend(GraphBuilder& b, const Heads& heads, const Attention& attention, const BatchInputs& in,
             const KvCache& cache, Value chosen = {});

/// Stores the keys of x [n_embd, t] for the choice, and chooses for queries of q_input [n_in, t]. Absent if a sequence
/// can have no more positions than are chosen. Errors: unsupported (more tokens than are chosen, in training).
Value choose_keys(GraphBuilder& b, Value q_input, Value x, const KeyChoice& choice, std::span<const RopeTable> ropes,
                  const BatchInputs& in, const KvCache& cache);

/// The heads' outputs y [v_dim * n_heads, t] times the gate of x [n_embd, t].
Value gated(GraphBuilder& b, Value y, Value x, const Attention& attention);

/// Attends with q [k_dim * n_heads, t] to the encoder output in the attention's layer of the encoder cache. Returns the
/// heads' outputs [v_dim * n_heads, t].
Value attend_to_encoder(GraphBuilder& b, Value q, const Attention& attention, const BatchInputs& in);

}  // namespace tessera::nn
